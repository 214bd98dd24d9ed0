# An application's database for tests: a keyed table with another unique key, a table with a key of two columns, a table without any key.
# app_create DSN; app_change DSN ROUND (inserts, updates, deletes, moved keys and duplicates; every round differs)

app_create() {
    if is_pg "$1"; then
        q "$1" "
            create table customer(id bigint primary key, email text not null unique, name text, photo bytea, active bool not null default true, born date, seen timestamptz);
            create table item(sku text not null, warehouse int not null, price numeric(12,2), weight float8, note text, primary key (sku, warehouse));
            create table visit(at timestamp, page text, ms numeric(10,1));
            alter table visit replica identity full;
            create index visit_page on visit(page);
            insert into customer select i, 'c' || i || '@example.org', 'Käufer ' || i || case when i % 7 = 0 then E'\n🦦' else '' end,
                case when i % 3 = 0 then decode(md5(i::text), 'hex') end, i % 2 = 0, date '2000-01-01' + i, timestamptz '2026-01-01 00:00:00+00' + i * interval '1.5 s' from generate_series(1, 500) i;
            insert into item select 'SKU-' || i, i % 4, i * 1.25, i * 0.5 + 0.25, case when i % 5 = 0 then null when i % 5 = 1 then '' else E'a\tb\\c' end from generate_series(1, 300) i;
            insert into visit select timestamp '2026-01-01' + i * interval '1 min', '/p/' || i % 9, i * 0.5 from generate_series(1, 100) i;
            insert into visit select * from visit where page = '/p/3';"
    else
        q "$1" "
            pragma journal_mode = wal;
            create table customer(id integer primary key, email text not null unique, name text, photo blob, active boolean not null default 1, born date, seen text);
            create table item(sku text not null, warehouse int not null, price decimal(12,2), weight real, note text, primary key (sku, warehouse)) without rowid;
            create table visit(at text, page text, ms real);
            create index visit_page on visit(page);
            with recursive n(i) as (values (1) union all select i + 1 from n where i < 500)
            insert into customer select i, 'c' || i || '@example.org', 'Käufer ' || i || case when i % 7 = 0 then char(10) || '🦦' else '' end,
                case when i % 3 = 0 then cast(printf('%c%c', i, 255 - i % 200) || 'é' as blob) end, i % 2 = 0, date('2000-01-01', '+' || i || ' days'), datetime('2026-01-01', '+' || i || ' seconds') from n;
            with recursive n(i) as (values (1) union all select i + 1 from n where i < 300)
            insert into item select 'SKU-' || i, i % 4, printf('%.2f', i * 1.25), i * 0.5 + 0.25, case when i % 5 = 0 then null when i % 5 = 1 then '' else 'a' || char(9) || 'b\c' end from n;
            with recursive n(i) as (values (1) union all select i + 1 from n where i < 100)
            insert into visit select datetime('2026-01-01', '+' || i || ' minutes'), '/p/' || i % 9, i * 0.5 from n;
            insert into visit select * from visit where page = '/p/3';" >/dev/null
    fi
}

app_change() {
    local r=$2
    q "$1" "
        begin;
        insert into customer(id, email, name) values ($((100000 + r)), 'r$r@example.org', 'round $r'), ($((200000 + r)), 's$r@example.org', null);
        update customer set name = 'touched in $r' where id % 10 = $((r % 10));
        commit;
        delete from customer where id = $((20 + r));
        update customer set id = $((300000 + r)) where id = $((40 + r));
        update item set price = price + 1.00, note = 'round $r' where warehouse = $((r % 4));
        delete from item where sku = 'SKU-$((50 + r))';
        insert into item(sku, warehouse, price, weight) values ('NEW-$r', $r, 9.99, 0.5);
        begin;
        insert into visit(page, ms) values ('/new/$r', 1.5), ('/new/$r', 1.5), ('/new/$r', null);
        update visit set ms = ms + 1 where page = '/p/$((r % 9))';
        delete from visit where page = '/p/$(((r + 4) % 9))' and ms > 20;
        commit;" >/dev/null
}
