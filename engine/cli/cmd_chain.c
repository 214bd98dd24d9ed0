/* backup list, show, verify, gc: what needs a store and no entity. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/cli/cli.h"

struct look { char *url; struct store *s; struct chain *c; bool json; struct buf out; struct jw w; };

static int look_open(struct args *a, struct look *l, struct err *e) {
    l->out = BUF_INIT(MiB(256));
    if (cli_json(a, &l->json, e) < 0 || cli_store_url(a, &l->url, e) < 0 || cli_chain(l->url, &l->s, &l->c, e) < 0) return -1;
    jw_begin(&l->w, &l->out, e);
    return 0;
}

static int look_end(struct look *l, int rc, struct err *e) {
    if (rc == 0 && l->json && (rc = jw_end(&l->w)) == 0) rc = buf_addc(&l->out, '\n', e);
    if (rc == 0) rc = cli_print(&l->out, e);
    buf_free(&l->out);
    chain_close(l->c);
    if (l->s) store_close(l->s);
    mem_free(l->url);
    return rc;
}

static int list_link(struct look *l, const struct link_info *li, struct err *e) {
    char at[32];
    clock_iso(li->time_us, at);
    if (!l->json)
        return buf_addf(&l->out, e, "%6llu  %s  %s  %-11s  %10llu records  %12llu bytes\n", (unsigned long long)li->n, li->id, at, !li->opening ? "incremental" : li->full_complete ? "full" : "opening",
                        (unsigned long long)(li->end_seq - li->start_seq), (unsigned long long)li->bytes);
    jw_obj(&l->w);
    jw_kv_uint(&l->w, "n", li->n);
    jw_kv_str(&l->w, "id", li->id);
    jw_kv_str(&l->w, "kind", li->opening ? "full" : "incremental");
    if (li->opening) jw_kv_bool(&l->w, "full_complete", li->full_complete);
    jw_kv_str(&l->w, "segment", li->segment);
    jw_kv_str(&l->w, "time", at);
    jw_kv_uint(&l->w, "start_seq", li->start_seq);
    jw_kv_uint(&l->w, "end_seq", li->end_seq);
    jw_kv_uint(&l->w, "bytes", li->bytes);
    jw_obj_end(&l->w);
    return 0;
}

int cmd_backup_list(struct args *a, struct err *e) {
    struct look l = {0};
    int rc = look_open(a, &l, e);
    if (rc == 0 && l.json) jw_arr(&l.w);
    for (uint64_t n = 0; rc == 0 && n < chain_info(l.c)->nlinks; n++) {
        struct link_info li;
        if ((rc = chain_link(l.c, n, &li, e)) == 0) rc = list_link(&l, &li, e);
    }
    if (rc == 0 && l.json) jw_arr_end(&l.w);
    return look_end(&l, rc, e);
}

static int show_chain(struct look *l, struct err *e) {
    const struct chain_info *ci = chain_info(l->c);
    struct shape *const *shapes;
    size_t n;
    if (chain_shapes_at(l->c, ci->nlinks, &shapes, &n, e) < 0) return -1;
    if (!l->json) {
        if (buf_addf(&l->out, e, "chain      %s\nsource     %s\nslot       %s\nfull       %s\nextendable %s\nlinks      %llu\ntip        %s at %s (seq %llu)\ncovered    %s\n",
                     ci->lineage, ci->source_identity, ci->slot_name[0] ? ci->slot_name : "none", ci->full_complete ? "complete" : ci->restorable ? "complete in an earlier segment, not yet in the open one" : "not complete", ci->extendable ? "yes" : "no",
                     (unsigned long long)ci->nlinks, ci->tip.id, ci->tip_pos.token, (unsigned long long)ci->tip.end_seq,
                     pos_is_set(&ci->covered) ? ci->covered.token : "-") < 0)
            return -1;
        for (size_t i = 0; i < n; i++)
            if (buf_addf(&l->out, e, "table %-4u %s.%s\n", shapes[i]->table, shapes[i]->ns, shapes[i]->name) < 0) return -1;
        return 0;
    }
    jw_obj(&l->w);
    jw_kv_str(&l->w, "lineage", ci->lineage);
    jw_kv_str(&l->w, "source_engine", ci->source_engine);
    jw_kv_str(&l->w, "source_identity", ci->source_identity);
    jw_kv_str(&l->w, "slot", ci->slot_name[0] ? ci->slot_name : NULL);
    jw_kv_bool(&l->w, "full_complete", ci->full_complete);
    jw_kv_bool(&l->w, "restorable", ci->restorable);
    jw_kv_bool(&l->w, "extendable", ci->extendable);
    jw_kv_uint(&l->w, "links", ci->nlinks);
    jw_kv_str(&l->w, "tip_id", ci->tip.id);
    jw_kv_str(&l->w, "tip_position", ci->tip_pos.token);
    jw_kv_uint(&l->w, "seq", ci->tip.end_seq);
    jw_kv_str(&l->w, "covered_to", pos_is_set(&ci->covered) ? ci->covered.token : NULL);
    jw_key(&l->w, "tables");
    jw_arr(&l->w);
    for (size_t i = 0; i < n; i++) {
        jw_obj(&l->w);
        jw_kv_uint(&l->w, "number", shapes[i]->table);
        jw_kv_str(&l->w, "schema", shapes[i]->ns);
        jw_kv_str(&l->w, "name", shapes[i]->name);
        jw_kv_str(&l->w, "shape", shapes[i]->digest);
        jw_obj_end(&l->w);
    }
    jw_arr_end(&l->w);
    jw_obj_end(&l->w);
    return 0;
}

static int show_link(struct look *l, const char *id, struct err *e) {
    struct link_info li;
    struct pos start, end;
    if (chain_find(l->c, id, &li, e) < 0) return err_hint(e, "see `sluice backup list`");
    if (chain_link_span(l->c, li.n, &start, &end, e) < 0) return -1;
    char at[32];
    clock_iso(li.time_us, at);
    if (!l->json)
        return buf_addf(&l->out, e, "link     %s\nnumber   %llu\nkind     %s\nsegment  %s\ntime     %s\nspan     (%s, %s]\nseq      (%llu, %llu]\nbytes    %llu\n", li.id,
                        (unsigned long long)li.n, li.opening ? "full" : "incremental", li.segment, at, start.token, end.token, (unsigned long long)li.start_seq,
                        (unsigned long long)li.end_seq, (unsigned long long)li.bytes);
    jw_obj(&l->w);
    jw_kv_str(&l->w, "id", li.id);
    jw_kv_uint(&l->w, "n", li.n);
    jw_kv_str(&l->w, "kind", li.opening ? "full" : "incremental");
    jw_kv_str(&l->w, "segment", li.segment);
    jw_kv_str(&l->w, "time", at);
    jw_kv_str(&l->w, "start", start.token);
    jw_kv_str(&l->w, "end", end.token);
    jw_kv_uint(&l->w, "start_seq", li.start_seq);
    jw_kv_uint(&l->w, "end_seq", li.end_seq);
    jw_kv_uint(&l->w, "bytes", li.bytes);
    jw_obj_end(&l->w);
    return 0;
}

int cmd_backup_show(struct args *a, struct err *e) {
    struct look l = {0};
    int rc = look_open(a, &l, e);
    if (rc == 0) rc = a->npos ? show_link(&l, a->pos[0], e) : show_chain(&l, e);
    return look_end(&l, rc, e);
}

int cmd_backup_verify(struct args *a, struct err *e) {
    struct look l = {0};
    struct verify_report r = {0};
    const char *depth = arg(a, "depth");
    if (depth && strcmp(depth, "hash") != 0 && strcmp(depth, "read") != 0) return err_set(e, CODE_USAGE, "--depth is hash or read, not '%s'", depth);
    int rc = look_open(a, &l, e);
    if (rc == 0) rc = chain_verify(l.c, depth && strcmp(depth, "read") == 0, &r, e);
    if (rc == 0 && !l.json)
        rc = buf_addf(&l.out, e, "verified: %llu links, %llu chunks, %llu rows, %llu records, %llu bytes\n", (unsigned long long)r.links, (unsigned long long)r.chunks,
                      (unsigned long long)r.rows, (unsigned long long)r.records, (unsigned long long)r.bytes);
    if (rc == 0 && l.json) {
        jw_obj(&l.w);
        jw_kv_bool(&l.w, "ok", 1);
        jw_kv_uint(&l.w, "links", r.links);
        jw_kv_uint(&l.w, "chunks", r.chunks);
        jw_kv_uint(&l.w, "rows", r.rows);
        jw_kv_uint(&l.w, "records", r.records);
        jw_kv_uint(&l.w, "bytes", r.bytes);
        jw_obj_end(&l.w);
    }
    return look_end(&l, rc, e);
}

struct said { struct look *l; struct err *e; int rc; };
static void say_object(void *arg_, const char *path, uint64_t size) {
    struct said *s = arg_;
    if (!s->l->json && buf_addf(&s->l->out, s->e, "%s  %llu bytes\n", path, (unsigned long long)size) < 0) s->rc = -1;
}

int cmd_backup_gc(struct args *a, struct err *e) {
    struct look l = {0};
    struct gc_report r = {0};
    int64_t age;
    if (cli_duration(a, "older-than", 3600 * INT64_C(1000000), &age, e) < 0) return -1;
    int rc = look_open(a, &l, e);
    struct said s = {&l, e, 0};
    if (rc == 0) rc = chain_gc(l.c, age, a->options.dry_run, say_object, &s, &r, e);
    if (rc == 0) rc = s.rc;
    if (rc == 0 && !l.json)
        rc = buf_addf(&l.out, e, "%s %llu objects, %llu bytes; %llu kept\n", a->options.dry_run ? "would remove" : "removed", (unsigned long long)r.objects,
                      (unsigned long long)r.bytes, (unsigned long long)r.kept);
    if (rc == 0 && l.json) {
        jw_obj(&l.w);
        jw_kv_bool(&l.w, "dry_run", a->options.dry_run);
        jw_kv_uint(&l.w, "objects", r.objects);
        jw_kv_uint(&l.w, "bytes", r.bytes);
        jw_kv_uint(&l.w, "kept", r.kept);
        jw_obj_end(&l.w);
    }
    return look_end(&l, rc, e);
}
