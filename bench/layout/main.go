// Command layout compares ways to lay out the check-in log in MariaDB: the cost to write a batch, to read a user's
// history, and to scan the rows of all users. See docs/decisions/0001-check-in-log.md.
//
//	go run ./layout 'root@unix(/run/mysqld/mysqld.sock)/scratch'
package main

import (
	"database/sql"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	users      = 100_000
	days       = 12
	batch      = 64
	committers = 2
)

type layout struct {
	name string
	ddl  []string
	year bool
	read string
	scan string
}

const columns = "day INT NOT NULL, user_id VARCHAR(12) NOT NULL, at BIGINT NOT NULL, kind SMALLINT NOT NULL, words INT NOT NULL, " +
	"minutes INT NOT NULL, req BIGINT NOT NULL"

var months = func() string {
	var b strings.Builder
	for _, set := range []string{"s", "c"} {
		for m := range 12 {
			fmt.Fprintf(&b, ", %s%d BIGINT NOT NULL DEFAULT 0", set, m+1)
		}
	}
	return b.String()
}()

var layouts = []layout{
	{name: "PK(day,user) alone", ddl: []string{"CREATE TABLE log (" + columns + ", PRIMARY KEY (day, user_id))"}},
	{name: "PK(user,day)", ddl: []string{"CREATE TABLE log (" + columns + ", PRIMARY KEY (user_id, day))"},
		read: "SELECT day, kind, at FROM log WHERE user_id = ? ORDER BY day",
		scan: "SELECT user_id, day, kind, at FROM log ORDER BY user_id, day"},
	{name: "PK(user,day) + KEY(at)", ddl: []string{"CREATE TABLE log (" + columns + ", PRIMARY KEY (user_id, day), KEY log_at (at))"},
		read: "SELECT day, kind, at FROM log WHERE user_id = ? ORDER BY day",
		scan: "SELECT user_id, day, kind, at FROM log ORDER BY user_id, day"},
	{name: "PK(day,user) + KEY(user,day,kind)", ddl: []string{"CREATE TABLE log (" + columns +
		", PRIMARY KEY (day, user_id), KEY log_user (user_id, day, kind))"},
		read: "SELECT day, kind FROM log WHERE user_id = ? ORDER BY day",
		scan: "SELECT user_id, day, kind FROM log ORDER BY user_id, day"},
	{name: "PK(day,user) + year row", year: true, ddl: []string{"CREATE TABLE log (" + columns + ", PRIMARY KEY (day, user_id))",
		"CREATE TABLE years (user_id VARCHAR(12) NOT NULL, year INT NOT NULL" + months +
			", words BIGINT NOT NULL, minutes BIGINT NOT NULL, PRIMARY KEY (user_id, year))"},
		read: "SELECT * FROM years WHERE user_id = ? ORDER BY year",
		scan: "SELECT * FROM years ORDER BY user_id, year"},
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: layout DSN")
	}
	cfg, err := mysql.ParseDSN(os.Args[1])
	must(err)
	cfg.InterpolateParams = true
	conn, err := mysql.NewConnector(cfg)
	must(err)
	db := sql.OpenDB(conn)
	db.SetMaxIdleConns(8)
	ids := make([]string, users)
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
	for i := range ids {
		b := make([]byte, 12)
		for j := range b {
			b[j] = alphabet[rand.IntN(64)]
		}
		ids[i] = string(b)
	}
	fmt.Printf("%d users, %d days, batches of %d, %d committers\n", users, days, batch, committers)
	for _, l := range layouts {
		_, err := db.Exec("DROP TABLE IF EXISTS log")
		must(err)
		_, err = db.Exec("DROP TABLE IF EXISTS years")
		must(err)
		for _, ddl := range l.ddl {
			_, err := db.Exec(ddl)
			must(err)
		}
		start := time.Now()
		for day := range days {
			rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			work := make(chan []string)
			var wg sync.WaitGroup
			for range committers {
				wg.Go(func() {
					for some := range work {
						write(db, l, day, some)
					}
				})
			}
			for i := 0; i < len(ids); i += batch {
				work <- ids[i:min(i+batch, len(ids))]
			}
			close(work)
			wg.Wait()
		}
		took := time.Since(start)
		fmt.Printf("%-36s write %7.0f rows/s", l.name, users*days/took.Seconds())
		if l.read != "" {
			start = time.Now()
			for i := range 2000 {
				drain(db.Query(l.read, ids[i%len(ids)]))
			}
			fmt.Printf("   one user %6.0f µs", float64(time.Since(start).Microseconds())/2000)
			start = time.Now()
			n := drain(db.Query(l.scan))
			fmt.Printf("   scan of %d rows %.2f s", n, time.Since(start).Seconds())
		}
		fmt.Println()
	}
}

func write(db *sql.DB, l layout, day int, some []string) {
	tx, err := db.Begin()
	must(err)
	args := make([]any, 0, 7*len(some))
	for _, id := range some {
		args = append(args, day, id, time.Now().UnixMilli(), 1, 10, 20, rand.Int64())
	}
	rows := strings.TrimSuffix(strings.Repeat("(?,?,?,?,?,?,?),", len(some)), ",")
	drain(tx.Query("INSERT INTO log (day,user_id,at,kind,words,minutes,req) VALUES "+rows+
		" ON DUPLICATE KEY UPDATE req = req RETURNING user_id, day, at, req", args...))
	if l.year {
		args = args[:0]
		for _, id := range some {
			args = append(args, id, int64(1)<<(day%31))
		}
		rows := strings.TrimSuffix(strings.Repeat("(?,2026,?,10,20),", len(some)), ",")
		_, err := tx.Exec("INSERT INTO years (user_id,year,s3,words,minutes) VALUES "+rows+
			" ON DUPLICATE KEY UPDATE s3 = s3 | VALUES(s3), words = words + VALUES(words), minutes = minutes + VALUES(minutes)", args...)
		must(err)
	}
	must(tx.Commit())
}

func drain(rows *sql.Rows, err error) (n int) {
	must(err)
	columns, err := rows.Columns()
	must(err)
	into := make([]any, len(columns))
	for i := range into {
		into[i] = new(sql.RawBytes)
	}
	for rows.Next() {
		must(rows.Scan(into...))
		n++
	}
	must(rows.Err())
	must(rows.Close())
	return n
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
