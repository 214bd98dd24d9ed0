#include "engine/flow/mirror.h"

#include <string.h>

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"

#define LINKS_AT_ONCE 256

static void chain_members(struct jw *w, const struct chain_info *ci) {
    jw_kv_str(w, "source_engine", ci->source_engine);
    jw_kv_str(w, "source_identity", ci->source_identity);
    if (ci->slot_name[0]) jw_kv_str(w, "slot_name", ci->slot_name);
    jw_kv_int(w, "extendable", ci->extendable);
    jw_kv_str(w, "segment", ci->segment);
    jw_kv_int(w, "full_complete", ci->full_complete);
    jw_kv_uint(w, "nlinks", ci->nlinks);
    jw_kv_str(w, "tip_id", ci->tip.id);
    jw_kv_uint(w, "tip_seq", ci->tip.end_seq);
    jw_kv_str(w, "tip_pos", ci->tip_pos.token);
    jw_kv_int(w, "tip_time_us", ci->tip.time_us);
    if (pos_is_set(&ci->covered)) jw_kv_str(w, "covered_pos", ci->covered.token);
}

static void link_member(struct jw *w, const struct link_info *li) {
    jw_obj(w);
    jw_kv_uint(w, "n", li->n);
    jw_kv_str(w, "id", li->id);
    jw_kv_str(w, "segment", li->segment);
    jw_kv_str(w, "attempt", li->attempt);
    jw_kv_uint(w, "start_seq", li->start_seq);
    jw_kv_uint(w, "end_seq", li->end_seq);
    jw_kv_uint(w, "bytes", li->bytes);
    jw_kv_int(w, "time_us", li->time_us);
    jw_kv_int(w, "opening", li->opening);
    jw_obj_end(w);
}

static void segment_member(struct jw *w, const char *segment, uint64_t first, bool complete) {
    jw_obj(w);
    jw_kv_str(w, "segment", segment);
    jw_kv_uint(w, "first_n", first);
    jw_kv_int(w, "full_complete", complete);
    jw_obj_end(w);
}

void mirror_chain(struct job *j, struct chain *c, uint64_t from_n) {
    const struct chain_info *ci = chain_info(c);
    struct buf b = BUF_INIT(MiB(1));
    struct err e = {0};
    struct jw w;
    uint64_t last_n = ci->nlinks > from_n + LINKS_AT_ONCE ? from_n + LINKS_AT_ONCE : ci->nlinks;
    jw_begin(&w, &b, &e);
    jw_obj(&w);
    chain_members(&w, ci);
    jw_key(&w, "links");
    jw_arr(&w);
    for (uint64_t n = from_n; n < last_n; n++) {
        struct link_info li;
        if (chain_link(c, n, &li, &e) < 0) goto out;
        link_member(&w, &li);
    }
    jw_arr_end(&w);
    jw_key(&w, "segments");
    jw_arr(&w);
    for (uint64_t n = from_n; n < last_n; n++) {
        struct link_info li;
        if (chain_link(c, n, &li, &e) < 0) goto out;
        if (li.opening && n != ci->segment_first) segment_member(&w, li.segment, n, li.full_complete);
    }
    if (ci->nlinks) segment_member(&w, ci->segment, ci->segment_first, ci->full_complete); /* always: it becomes complete beside the links */
    jw_arr_end(&w);
    jw_obj_end(&w);
    const char *text = jw_end(&w) < 0 ? NULL : buf_str(&b, &e);
    if (text) chain_mirror(j->control, j->entity.store, ci->lineage, text);
out:
    if (e.code) log_debug("the chain was not mirrored", KV_STR("err", e.msg));
    buf_free(&b);
}
