/* Stop requests and heartbeats. */
#include "tests/unit/chain/fixture.h"

int main(void) {
    struct store *st = fx_store();
    char a[33], b[33], all[33], producer[33], longest[256];
    ok(chain_stop_nonce(st, "s1", a, E) == 0 && a[0] == '\0', "no stop there");
    ok(chain_stop_put(st, "s1", E) == 0 && chain_stop_nonce(st, "s1", a, E) == 0 && strlen(a) == 32, "one for s1");
    ok(chain_stop_put(st, "s1", E) == 0 && chain_stop_nonce(st, "s1", b, E) == 0 && strcmp(a, b) != 0, "a second one is another");
    ok(chain_stop_nonce(st, "S1", a, E) == 0 && a[0] == '\0', "another stream's is its own");
    ok(chain_stop_nonce(st, NULL, all, E) == 0 && all[0] == '\0' && chain_stop_nonce(st, CHAIN_STOP_PRODUCER, producer, E) == 0 &&
           producer[0] == '\0',
       "so are everyone's and the producer's");
    ok(chain_stop_put(st, "producer", E) == 0 && chain_stop_nonce(st, CHAIN_STOP_PRODUCER, producer, E) == 0 && producer[0] == '\0',
       "a stream called producer is not the producer");
    ok(chain_stop_put(st, NULL, E) == 0 && chain_stop_put(st, CHAIN_STOP_PRODUCER, E) == 0, "everyone, producer");
    ok(fx_list(st, "stop/consumers.json")->n == 1 && fx_list(st, "stop/producer.json")->n == 1 && fx_list(st, "stop/7331.json")->n == 1,
       "named as the format says");
    memset(longest, 'x', 255);
    longest[255] = '\0';
    ok(chain_stop_put(st, longest, E) == 0 && chain_stop_nonce(st, longest, a, E) == 0 && a[0], "the longest stream-id: %s", fx_err.msg);
    ok(chain_stop_put(st, "../../etc/passwd", E) == 0 && fx_list(st, "stop/")->n == 6, "no name leaves the folder");
    ok(chain_stop_put(st, "", E) < 0 && fx_err.code == CODE_USAGE, "an empty one is refused");
    err_clear(E);

    struct consumer c = {.stream_id = "s/1",
                         .target = "postgres:1",
                         .link_id = "0123456789abcdef0123456789abcdef01234567",
                         .seq = 9,
                         .seen_us = 5,
                         .host = "h",
                         .pid = 7},
                    *v;
    struct arena *ar = arena_new(KiB(4), E);
    size_t n;
    ok(chain_consumers(st, ar, &v, &n, E) == 0 && n == 0, "no consumers");
    ok(chain_consumer_put(st, &c, E) == 0, "heartbeat");
    c.seq = 10;
    c.stopped_us = 6;
    ok(chain_consumer_put(st, &c, E) == 0, "replaced");
    snprintf(c.stream_id, sizeof c.stream_id, "s2");
    ok(chain_consumer_put(st, &c, E) == 0, "another");
    fx_put(st, "consumers/ff.json", "{", 1);
    ok(chain_consumers(st, ar, &v, &n, E) == 0 && n == 2, "two; what cannot be read is none: %s", fx_err.msg);
    ok(n == 2 && strcmp(v[0].stream_id, "s/1") == 0 && v[0].seq == 10 && v[0].stopped_us == 6 && v[0].pid == 7 &&
           strcmp(v[0].target, "postgres:1") == 0 && strcmp(v[0].link_id, c.link_id) == 0 && strcmp(v[0].host, "h") == 0,
       "as written");
    arena_free(ar);
    store_close(st);
    fx_remove();
    return done_testing();
}
