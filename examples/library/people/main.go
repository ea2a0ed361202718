// Command people returns names from SQL through a cache that its processes share: GET /{id}, and PUT /{id}/{name}.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"net/http"
	"os"

	_ "modernc.org/sqlite"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/redis"
)

func main() {
	db, err := sql.Open("sqlite", os.Getenv("DATABASE"))
	if err != nil {
		log.Fatal(err)
	}
	rt, err := cache.Open(context.Background(), cache.Options{Redis: redis.Config{URL: os.Getenv("REDIS")}})
	if err != nil {
		log.Fatal(err)
	}
	people := cache.Keyed(rt, "person", func(id string) string { return id }, func(ctx context.Context, id string) (name string, err error) {
		log.Print("asking the database for ", id)
		err = db.QueryRowContext(ctx, "SELECT name FROM people WHERE id = ?", id).Scan(&name)
		return name, err
	})
	http.HandleFunc("GET /{id}", func(w http.ResponseWriter, r *http.Request) {
		name, err := people.Get(r.Context(), r.PathValue("id"))
		fmt.Fprintln(w, name, err)
	})
	http.HandleFunc("PUT /{id}/{name}", func(w http.ResponseWriter, r *http.Request) {
		name, err := people.Mutate(r.Context(), r.PathValue("id"), func(ctx context.Context) error {
			_, err := db.ExecContext(ctx, "UPDATE people SET name = ? WHERE id = ?", r.PathValue("name"), r.PathValue("id"))
			return err
		})
		fmt.Fprintln(w, name, err)
	})
	log.Fatal(http.ListenAndServe(os.Getenv("LISTEN"), nil))
}
