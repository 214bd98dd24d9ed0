/* Looking entities up by something else than their name. */
#include <stdio.h>
#include <string.h>

#include "engine/control/room.h"

int entity_by_store(struct control *c, const char *kind, const char *store_dsn, char name[256], bool *found, struct err *e) {
    *found = false;
    sqlite3_stmt *s = stmt_get(c, "control/entity_by_store", e);
    if (!s) return -1;
    stmt_text(c, s, ":kind", kind);
    stmt_text(c, s, ":dsn", store_dsn);
    int rc = stmt_step(c, s, e);
    if (rc <= 0) return rc;
    *found = snprintf(name, 256, "%s", stmt_str(s, 0)) < 256;
    stmt_end(s);
    return 0;
}

int entity_each(struct control *c, int (*fn)(void *arg, const struct entity *en), void *arg, struct err *e) {
    struct entity en = {0};
    int rc = 0;
    sqlite3_stmt *s = stmt_get(c, "control/entities_all", e);
    if (!s) return -1;
    while ((rc = stmt_step(c, s, e)) > 0)
        if ((rc = entity_read(c, s, &en, e)) < 0 || fn(arg, &en) != 0) break;
    stmt_end(s);
    entity_free(&en);
    return rc < 0 ? -1 : 0;
}
