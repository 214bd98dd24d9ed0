#include "drivers/sqlite/target_impl.h"
int sqt_table_alter(struct lane *l, const struct shape *before, const struct shape *after, const char *old_ns, const char *old_name,
                    const char *ns, const char *name, const struct mark *m, struct err *e) {
    (void)l; (void)before; (void)after; (void)old_ns; (void)old_name; (void)ns; (void)name; (void)m;
    return err_set(e, CODE_INTERNAL, "stub");
}
