package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

const root = ".."

// fence is one fenced block of a Markdown file.
type fence struct {
	lang string
	line int
	text string
}

func fences(t *testing.T, file string) (all []fence) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for i, line := range strings.Split(string(text), "\n") {
		lang, fenced := strings.CutPrefix(line, "```")
		switch {
		case fenced && !inside:
			all, inside = append(all, fence{lang: lang, line: i + 1}), true
		case fenced:
			inside = false
		case inside:
			all[len(all)-1].text += line + "\n"
		}
	}
	return all
}

// programs returns the blocks that are run. If a block of json or text follows, it shows the output of the block.
func programs(t *testing.T, file, lang string) (blocks []fence, shown []string) {
	t.Helper()
	all := fences(t, file)
	for i, f := range all {
		if f.lang != lang {
			continue
		}
		out := ""
		if i+1 < len(all) && (all[i+1].lang == "json" || all[i+1].lang == "text") {
			out = all[i+1].text
		}
		blocks, shown = append(blocks, f), append(shown, out)
	}
	return blocks, shown
}

// The commands of each page run block by block in one bash, as a reader would type them. The variables below get the
// values of free ports and real servers, and a mail may take longer. A line that starts a server runs in the
// background, and the next line waits until the server has printed that it is ready.
func TestPages_CommandsPrintWhatTheyShow(t *testing.T) {
	t.Parallel()
	for _, page := range []struct {
		file     string
		blocks   int // at least
		replaced []string
	}{
		{"README.md", 2, nil},
		{"docs/quick-start.md", 8, []string{"STOA"}},
		{"docs/production.md", 3, []string{"STOA_REDIS", "STOA_SQL", "A", "B"}},
	} {
		t.Run(filepath.Base(page.file), func(t *testing.T) {
			t.Parallel()
			runPage(t, page.file, page.blocks, page.replaced)
		})
	}
}

func runPage(t *testing.T, file string, atLeast int, replaces []string) {
	blocks, shown := programs(t, file, "sh")
	if len(blocks) < atLeast {
		t.Fatalf("found %d blocks of commands", len(blocks))
	}
	first, a, b := freeAddress(t), freeAddress(t), freeAddress(t)
	values := map[string]string{}
	for _, name := range replaces {
		switch name {
		case "STOA":
			values[name] = "http://" + first
		case "STOA_REDIS":
			values[name] = redistest.Server(t).URL
		case "STOA_SQL":
			values[name] = "'" + sqldbtest.Server(t).URL + "'"
		case "A":
			values[name] = a
		case "B":
			values[name] = b
		}
	}
	// If the date changed while the commands run, the responses would have another date.
	zone := "Europe/Athens"
	if clock := (civil.Clock{Zone: zone}); clock.Today(time.Now()) != clock.Today(time.Now().Add(5*time.Minute)) {
		zone = "Asia/Tokyo"
	}
	replacements := []string{"Europe/Athens", zone, "--wait 5s", "--wait 60s", "http://127.0.0.1:8080", "http://" + first}
	if reason := cannotRunJS(); reason != "" {
		t.Log("programs in JavaScript are left out: ", reason)
		keep := len(blocks)
		for i, block := range slices.Backward(blocks) {
			if strings.Contains(block.text, "\nnode ") {
				keep = i
			}
		}
		blocks, shown = blocks[:keep], shown[:keep]
	} else if programs, _ := programs(t, file, "js"); len(programs) > 0 { // the folder has the packages that they import
		dir := jsFolder(t)
		name, _, _ := strings.Cut(strings.TrimPrefix(programs[0].text, "// "), "\n")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(programs[0].text), 0o600); err != nil {
			t.Fatal(err)
		}
		replacements = append(replacements, "npm install --silent centrifuge ws", "cd '"+dir+"'")
	}
	logs := t.TempDir()
	var script strings.Builder
	script.WriteString(`set -euo pipefail
ready() {
	for _ in $(seq 1200); do
		if grep -q '^stoa ready on ' "$LOGS/$1"; then return; fi
		if ! kill -0 $!; then break; fi
		sleep 0.1
	done
	echo "the server did not become ready" >&2
	cat "$LOGS/$1" >&2
	exit 1
}
`)
	replaced := map[string]bool{}
	assignment := regexp.MustCompile(`\b([A-Z_]+)=(\S+)`)
	serves := regexp.MustCompile(`^(go run \./cmd/stoa serve\b.*?)( &)?$`)
	for i, block := range blocks {
		fmt.Fprintf(&script, "echo '=== block %d'\n", i)
		for n, line := range strings.Split(strings.TrimSuffix(block.text, "\n"), "\n") {
			line = assignment.ReplaceAllStringFunc(line, func(s string) string {
				name, _, _ := strings.Cut(s, "=")
				if v, ours := values[name]; ours {
					replaced[name] = true
					return name + "=" + v
				}
				return s
			})
			if m := serves.FindStringSubmatch(line); m != nil {
				log := fmt.Sprintf("%d-%d", i, n)
				line = fmt.Sprintf("%s >\"$LOGS/%s\" 2>&1 &\nready %s\ncat \"$LOGS/%s\"", m[1], log, log, log)
			}
			script.WriteString(strings.NewReplacer(replacements...).Replace(line) + "\n")
		}
	}
	for name := range values {
		if !replaced[name] {
			t.Errorf("%s no longer sets %s", file, name)
		}
	}

	cmd := exec.Command("bash", "-s")
	cmd.Dir = root
	cmd.Stdin = strings.NewReader(script.String())
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "STOA_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	// The settings of the first server, whose command has none.
	cmd.Env = append(cmd.Env, "STOA_ADDR="+first, "STOA_DATA="+t.TempDir(), "LOGS="+logs, "TZ="+zone)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the servers are in the group too
	// Every process of the script has the pipe alive open. The pipe ends with the last process.
	gone, alive, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	cmd.ExtraFiles = []*os.File{alive}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = alive.Close()
	late := time.AfterFunc(10*patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err = cmd.Wait()
	late.Stop()
	stopGroup(t, cmd.Process.Pid, gone)
	if err != nil {
		t.Errorf("bash: %v; it said\n%s", err, &stderr)
	}
	if t.Failed() {
		t.Logf("the script was\n%s", &script)
	}
	// The addresses of the test's servers are replaced by those in the text.
	said := strings.NewReplacer(first, "127.0.0.1:8080", a, "127.0.0.1:8081", b, "127.0.0.1:8082").Replace(stdout.String())
	for i, block := range blocks {
		_, out, ran := strings.Cut(said, fmt.Sprintf("=== block %d\n", i))
		if !ran {
			t.Fatalf("%s:%d was not reached", file, block.line)
		}
		out, _, _ = strings.Cut(out, "=== block ")
		if shown[i] != "" && !alike(shown[i], out) {
			t.Errorf("%s:%d: it printed\n%swhile the text shows\n%s", file, block.line, out, shown[i])
		}
	}
}

// The commands of the pages about people also run, in the order of reading, next to one server. A refused request fails
// the test.
func TestEveryCommandOfThePagesAboutPeopleDoesWhatItSays(t *testing.T) {
	t.Parallel()
	server := serve(t, "--accounts-limits-codes-per-minute", "10")
	dir := t.TempDir()
	var photo bytes.Buffer
	if err := jpeg.Encode(&photo, image.NewGray(image.Rect(0, 0, 90, 60)), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "me.jpg"), photo.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	// The code is in the next mail that has one; three were used before.
	script := `set -euo pipefail
curl() { command curl --fail-with-body "$@"; }
codes=3
next() {
	for _ in $(seq 1200); do
		all=$(curl -sS $S/dev/mail.json | grep -o '"code":"[0-9]\{6\}"' || true)
		if [ "$(echo "$all" | wc -l)" -gt $codes ]; then echo "$all" | head -1 | pick code; return; fi
		sleep 0.05
	done
	echo "no mail came" >&2
	exit 1
}
`
	type printed struct {
		fence
		file, shown string
	}
	var all []printed
	for _, file := range []string{"README.md", "credentials.md", "sessions.md", "profile.md", "friends.md", "leaving.md"} {
		file = "docs/people/" + file
		blocks, shown := programs(t, file, "sh")
		for i, block := range blocks {
			if strings.HasPrefix(block.text, "go run ./cmd/stoa serve") {
				continue
			}
			script += fmt.Sprintf("echo '=== block %d'\n%s", len(all), block.text)
			all = append(all, printed{block, file, shown[i]})
		}
	}
	script = strings.NewReplacer("S=http://127.0.0.1:8080\n", "S="+server+"\n", "go run ./cmd/stoa", stoaBinary(t), "--wait 5s", "--wait 60s",
		"CODE=123456 ", "CODE=$(next) codes=$((codes + 1)) ").Replace(script)
	cmd := exec.Command("bash", "-s")
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), "STOA_SERVER="+server), strings.NewReader(script)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	said, err := cmd.Output()
	for i, block := range all {
		_, out, ran := strings.Cut(string(said), fmt.Sprintf("=== block %d\n", i))
		if !ran {
			t.Fatalf("%s:%d was not reached: %v\n%s%s", block.file, block.line, err, &stderr, said)
		}
		out, _, _ = strings.Cut(out, "=== block ")
		if block.shown != "" && !alike(block.shown, out) {
			t.Errorf("%s:%d: it printed\n%swhile the text shows\n%s", block.file, block.line, out, block.shown)
		}
	}
	if err != nil {
		t.Errorf("bash: %v\n%s%s", err, &stderr, said)
	}
}

var (
	moments = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	dates   = regexp.MustCompile(`\d{4}-\d\d-\d\d`)
	years   = regexp.MustCompile(`"year":\d{4}`)
	spaces  = regexp.MustCompile(`\s+`)
)

// alike compares a shown output with the printed one. It ignores white space and differences of dates, and "…" matches
// any text.
func alike(shown, printed string) bool {
	plain := func(s string) string {
		s = spaces.ReplaceAllString(s, "")
		s = moments.ReplaceAllString(s, "MOMENT")
		return years.ReplaceAllString(dates.ReplaceAllString(s, "DATE"), `"year":YEAR`)
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(plain(shown)), "…", ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(plain(printed))
}

func TestShownOutputIsComparedAsAReaderWould(t *testing.T) {
	for _, tt := range []struct {
		shown, printed string
		want           bool
	}{
		{"{\"day\":\"2026-03-01\",\n \"n\":1}\n", `{"day":"2027-01-02","n":1}`, true},
		{`{"at":"2026-03-01T06:30:00.123Z"}`, `{"at":"2026-11-21T08:33:58Z"}`, true},
		{`{"user":"…","n":1}`, `{"user":"tOZrLR2Cod30","n":1}`, true},
		{`{"user":"…","n":1}`, `{"user":"tOZrLR2Cod30","n":2}`, false},
		{`{"n":1}`, `{"n":1} and more`, false},
		{`{"n":1}`, ``, false},
	} {
		if got := alike(tt.shown, tt.printed); got != tt.want {
			t.Errorf("alike(%q, %q): got %v", tt.shown, tt.printed, got)
		}
	}
}

// stopGroup ends the servers in a process group and waits until gone reports the end of the last one.
func stopGroup(t *testing.T, group int, gone *os.File) {
	t.Helper()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = syscall.Kill(-group, sig) // an error means that no process is left
		_ = gone.SetReadDeadline(time.Now().Add(patience))
		_, err := gone.Read(make([]byte, 1))
		if errors.Is(err, io.EOF) {
			return
		}
		t.Errorf("the servers of the README are there %s after %s: %v", patience, sig, err)
	}
}

// freeAddress reserves a loopback address until the test ends.
func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", redistest.FreePort(t))
}

func TestTheProgramInTheReadmePrintsWhatItSays(t *testing.T) {
	t.Parallel()
	blocks, shown := programs(t, "README.md", "go")
	if len(blocks) == 0 {
		t.Fatal("README.md shows no Go program")
	}
	for i, block := range blocks {
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(block.text), 0o600); err != nil {
			t.Fatal(err)
		}
		run := exec.Command("go", "run", file)
		run.Dir = root // its imports belong to this module
		out, err := run.CombinedOutput()
		if err != nil || string(out) != shown[i] {
			t.Errorf("README.md:%d: it printed\n%s(%v) while the text shows\n%s", block.line, out, err, shown[i])
		}
	}
}

func TestChinesePages_HaveTheSameCommands(t *testing.T) {
	for _, page := range []string{"README", "docs/quick-start", "docs/production"} {
		for _, lang := range []string{"sh", "go", "js"} {
			want, wantOut := programs(t, page+".md", lang)
			got, gotOut := programs(t, page+".zh-CN.md", lang)
			if len(got) != len(want) {
				t.Fatalf("%s.zh-CN.md has %d blocks of %s, the English page %d", page, len(got), lang, len(want))
			}
			for i := range want {
				if got[i].text != want[i].text || gotOut[i] != wantOut[i] {
					t.Errorf("%s.zh-CN.md:%d has\n%s%sthe English page, line %d,\n%s%s", page, got[i].line, got[i].text, gotOut[i], want[i].line,
						want[i].text, wantOut[i])
				}
			}
		}
	}
}

func TestThePagesInTheReferenceAreServed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "reference", "routes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, pages, _ := strings.Cut(string(text), "## Pages and probes\n")
	pages, _, _ = strings.Cut(pages, "\n## ")
	paths := regexp.MustCompile("(?m)^\\| `GET ([^` ]+)`").FindAllStringSubmatch(pages, -1)
	if len(paths) < 5 {
		t.Fatalf("found the pages %q", paths)
	}
	base := serve(t, "--pprof")
	for _, p := range paths {
		resp, err := http.Get(base + p[1])
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s: got %s", p[1], resp.Status)
		}
	}
}

// Links between documents, and from documents to the code, have existing targets.
func TestLinksInTheDocumentsLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	looked := 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{"node_modules", ".git", "stoa-data", "bin"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(file) != ".md" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			looked++
			to := file
			if target != "" {
				to = filepath.Join(filepath.Dir(file), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
				continue
			}
			if anchor != "" && !hasHeading(t, to, anchor) {
				t.Errorf("%s links to %s, and there is no such heading", file, m[1])
			}
		}
		return nil
	})
	if err != nil || looked < 20 {
		t.Fatalf("looked at %d links: %v", looked, err)
	}
}

func hasHeading(t *testing.T, file, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		title, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if is && strings.HasPrefix(line, "#") && slug(title) == anchor {
			return true
		}
	}
	return false
}

var notInSlugs = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// slug returns the anchor of a heading on code hosts.
func slug(title string) string {
	return strings.ReplaceAll(notInSlugs.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")
}

// The server of this test refuses for a moment, and has texts that resemble what the commands search for.
func TestTheCommandsForAnExportCopyItWholeOrSayThatTheyDidNot(t *testing.T) {
	t.Parallel()
	blocks, _ := programs(t, "docs/chats.md", "sh")
	at := slices.IndexFunc(blocks, func(f fence) bool { return strings.Contains(f.text, "/v1/chats/export") })
	if at < 0 {
		t.Fatal("docs/chats.md exports nothing any more")
	}
	parts := map[string]string{
		"":    `{"chats":[],"messages":[{"text":"C:\\new\n\"next\":\"x\"}"}],"next":"a.1"}`,
		"a.1": `{"chats":[],"messages":[{"custom":{"next":"x"}}],"next":"b.2"}`,
		"b.2": `{"chats":[],"messages":[{"custom":{"a":1,"next":"x"}}]}`,
	}
	for name, c := range map[string]struct {
		refusal int // status of the first response for the second part
		whole   bool
	}{
		"too many requests": {http.StatusTooManyRequests, true},
		"a restart":         {http.StatusServiceUnavailable, true},
		"a token that ends": {http.StatusUnauthorized, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				cursor := r.URL.Query().Get("cursor")
				if cursor == "a.1" && asked.Add(1) == 1 {
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(c.refusal)
					return
				}
				_, _ = io.WriteString(w, parts[cursor])
			}))
			defer server.Close()
			cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(blocks[at].text, "http://127.0.0.1:8080", server.URL))
			cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "TOKEN=t")
			out, err := cmd.CombinedOutput()
			got, _ := os.ReadFile(filepath.Join(cmd.Dir, "chats.jsonl"))
			want := ""
			if c.whole {
				want = parts[""] + "\n" + parts["a.1"] + "\n" + parts["b.2"] + "\n"
			}
			if (err == nil) != c.whole || string(got) != want {
				t.Errorf("%v\n%s\ngot  %s\nwant %s", err, out, got, want)
			}
		})
	}
}
