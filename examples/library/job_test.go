package library

import (
	"database/sql"
	"net/url"
	"os"
	"regexp"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// The statement of docs/library/job.md also counts the row if the text stays the same, on a database that is opened as
// the page describes. It does not change a row with a higher token.
func TestAReportThatStaysTheSameIsWritten(t *testing.T) {
	page, err := os.ReadFile("../../docs/library/job.md")
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(sqldbtest.Server(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	option := regexp.MustCompile(`clientFoundRows=\w+`).FindString(string(page))
	db, err := sql.Open("mysql", "root@unix("+server.Query().Get("socket")+")"+server.Path+"?"+option)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"CREATE TABLE reports (name VARCHAR(20) PRIMARY KEY, text TEXT, token BIGINT)",
		"INSERT INTO reports VALUES ('daily', '', 0)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	update := regexp.MustCompile(`UPDATE reports [^"]*`).FindString(string(page))
	for i, w := range []struct{ token, rows int64 }{{7, 1}, {7, 1}, {6, 0}, {8, 1}} {
		res, err := db.ExecContext(t.Context(), update, "all is well", w.token, w.token)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := res.RowsAffected(); err != nil || n != w.rows {
			t.Errorf("write %d by token %d: %d rows, %v; want %d", i, w.token, n, err, w.rows)
		}
	}
}
