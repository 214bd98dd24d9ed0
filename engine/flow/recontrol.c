/* `control rebuild`: what a lost control DB knew besides its own history stands on the targets and in the stores; read it again. */
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/flow/flow.h"
#include "engine/flow/mirror.h"

struct names { struct arena *a; struct { const char *kind, *name; } *v; size_t n, cap; struct err *e; bool failed; };

static int note_name(void *arg, const struct entity *en) {
    struct names *ns = arg;
    if (ns->n == ns->cap) {
        size_t cap = ns->cap ? ns->cap * 2 : 32;
        void *v = mem_resize(ns->v, cap * sizeof *ns->v, ns->e);
        if (!v) return ns->failed = true;
        ns->v = v;
        ns->cap = cap;
    }
    ns->v[ns->n].kind = arena_copy(ns->a, en->kind, strlen(en->kind), ns->e);
    ns->v[ns->n].name = arena_copy(ns->a, en->name, strlen(en->name), ns->e);
    if (!ns->v[ns->n].kind || !ns->v[ns->n].name) return ns->failed = true;
    ns->n++;
    return 0;
}

static int producer_again(struct job *j, struct buf *out, struct err *e) {
    struct chain *c = NULL;
    if (job_chain(j, &c, e) < 0) return -1;
    const struct chain_info *ci = chain_info(c);
    struct mirror m = {.link_id = ci->tip.id, .pos = ci->tip_pos.token, .seq = ci->tip.end_seq, .lag_us = -1};
    position_mirror(j->control, &j->entity, &m);
    for (uint64_t n = 0; n < ci->nlinks; n += 256) mirror_chain(j, c, n);
    int rc = buf_addf(out, e, "producer %s: chain %.12s, %llu links, at %s\n", j->entity.name, ci->lineage, (unsigned long long)ci->nlinks, ci->tip_pos.token);
    chain_close(c);
    return rc;
}

static int broker_again(struct job *j, struct buf *out, struct err *e) {
    struct target *t = NULL;
    struct target_state st = {0};
    bool found;
    if (job_target(j, j->entity.name, &t, e) < 0) return -1;
    int rc = j->target_driver->target->state_read(t, j->entity.name, &st, &found, e);
    j->target_driver->target->close(t);
    if (rc < 0) return -1;
    if (!found) return buf_addf(out, e, "broker %s: no row on its target\n", j->entity.name);
    struct mirror m = {.link_id = st.link_id, .seq = st.seq, .lag_us = -1};
    position_mirror(j->control, &j->entity, &m);
    return buf_addf(out, e, "broker %s: %s at %s, seq %llu\n", j->entity.name, st.phase, st.link_id, (unsigned long long)st.seq);
}

int flow_rebuild_control(struct control *c, struct buf *out, struct err *e) {
    struct names ns = {.e = e};
    int rc = -1;
    if (!(ns.a = arena_new(KiB(4), e))) return -1;
    if (entity_each(c, note_name, &ns, e) < 0 || ns.failed) goto out;
    for (size_t i = 0; i < ns.n; i++) {
        struct options o;
        struct job *j = NULL;
        struct err one = {0};
        if (options_init(&o, e) < 0) goto out;
        int bad = job_open(c, ns.v[i].kind, ns.v[i].name, &o, &j, &one) < 0;
        if (!bad && strcmp(ns.v[i].kind, "producer") == 0) bad = producer_again(j, out, &one) < 0;
        if (!bad && strcmp(ns.v[i].kind, "broker") == 0) bad = broker_again(j, out, &one) < 0;
        job_close(j);
        options_free(&o);
        /* One that cannot be reached does not keep the others from being read. */
        if (bad && buf_addf(out, e, "%s %s: not read: %s\n", ns.v[i].kind, ns.v[i].name, one.msg) < 0) goto out;
    }
    rc = 0;
out:
    arena_free(ns.a);
    mem_free(ns.v);
    return rc;
}
