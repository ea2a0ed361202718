package stoa

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

var shrinkProse = flag.Bool("shrink-prose", false,
	"lower the counts in testdata/prose.txt to those of now, carry counts to files that moved, or write the first file")

const proseBaseline = "testdata/prose.txt"

// habits are ways of writing that are hard to read for people who learned English late. CONTRIBUTING.md states the
// rules in "How we write". Phrases are divided by |; ^ is the start of a
// sentence that is not a question, and … any words. A habit without phrases is a long sentence.
var habits = []struct{ name, rule, phrases string }{
	{"headless subject", "begin with a noun", "^ Who|^ Whoever|^ Whose|^ Whom|^ What|^ Whatever|^ Those that|^ Those who|^ Those of|^ All " +
		"that|^ That which"},
	{"vague actor", "name the actor", "somebody|Somebody|somebody's|Somebody's|someone|Someone|someone's|nobody|Nobody|nobody's|no one|No " +
		"one|everybody|Everybody|everybody's|anybody|Anybody|anybody's|^ Nothing"},
	{"talking machine", "use the verb of the field: publish, broadcast, notify, return, log", "tell|tells|told|hear|hears|heard"},
	{"standing data", "data is stored, or is in a table", "stand|stands|lies"},
	{"how many", `write "is the largest", "is the number of" or "bounds"`,
		"is of how many|is up to how many|is among how many|is by how many|is for how many|is in how many|is of how much|is up to how much|is " +
			"by how much|is of how long|is for how long"},
	{"preposition before which", "write two sentences",
		"of which|for which|in which|to which|by which|on which|from which|with which|at which|after which|before which|among which|of " +
			"whom|for whom|in whom|to whom|by whom|on whom|from whom|with whom|among whom"},
	{"rare adverb", `write "again", "no longer", "next to", "in addition to" or "already"`, "anew|any more|beside|besides|by now"},
	{"causative have", "make the actor the subject", "has all…be|have all…be|had all…be"},
	{"over 30 words", "one fact per sentence", ""},
}

// A finding is a sentence with a habit. The field habit is an index of habits.
type finding struct {
	line, habit int
	sentence    string
}

// A place identifies a count of findings.
type place struct{ file, habit string }

// check returns the habits of each sentence. Fragments of up to twelve bytes do not count, nor does code.
func (p passage) check() (found []finding) {
	parts := strings.Split(p.text, "`")
	for i := 1; i < len(parts)-1; i += 2 {
		parts[i] = "code" + strings.Repeat("\n", strings.Count(parts[i], "\n"))
	}
	var words []string // of the sentence so far
	start := p.line
	flush := func() {
		written, bare := strings.Join(words, " "), bareWords(words)
		for i, h := range habits {
			for phrase := range strings.SplitSeq(h.phrases, "|") {
				if len(written) > 12 && (phrase == "" && len(words) > 30 || phrase != "" && hasPhrase(bare, phrase)) {
					found = append(found, finding{start, i, written})
					break
				}
			}
		}
		words = nil
	}
	for i, l := range strings.Split(strings.Join(parts, "`"), "\n") {
		for word := range strings.FieldsSeq(l) {
			if len(words) == 0 {
				start = p.line + i
			}
			words = append(words, word)
			if bare := strings.TrimRight(word, "*_)\"”"); bare != "" && strings.ContainsAny(bare[len(bare)-1:], ".?!:;") {
				flush()
			}
		}
	}
	flush()
	return found
}

// bareWords joins words without their punctuation. The mark ^ is the start of a sentence that is not a question.
func bareWords(words []string) string {
	bare := make([]string, 0, len(words)+3)
	if len(words) > 0 && !strings.HasSuffix(words[len(words)-1], "?") {
		bare = append(bare, "", "^")
	}
	for _, word := range words {
		bare = append(bare, strings.Trim(word, ".,:;?!()[]\"“”*_"))
	}
	return strings.Join(append(bare, ""), " ")
}

// hasPhrase reports whether words of a sentence contain the phrase. In a phrase, … matches any words.
func hasPhrase(bare, phrase string) bool {
	for part := range strings.SplitSeq(phrase, "…") {
		_, after, ok := strings.Cut(bare, " "+part+" ")
		if !ok {
			return false
		}
		bare = " " + after
	}
	return true
}

var skippedFolders = []string{"node_modules", "dist", "testdata", "vendor"}

// proseOf returns the findings of one file.
func proseOf(name string, src []byte) (found []finding, err error) {
	var passages []passage
	switch {
	case strings.HasSuffix(name, ".go"):
		passages, err = goPassages(name, src)
	case strings.HasSuffix(name, ".md"):
		passages = paragraphs(1, string(src))
	case !bytes.HasPrefix(src, []byte("// Generated ")):
		passages = tsPassages(name, string(src))
	}
	for _, p := range passages {
		found = append(found, p.check()...)
	}
	return found, err
}

// findProse checks all files that contain English.
func findProse() (byFile map[string][]finding, err error) {
	byFile = map[string][]finding{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(8)
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (len(name) > 1 && d.Name()[0] == '.' || slices.Contains(skippedFolders, d.Name()) || name == "docs/reference"):
			return fs.SkipDir
		// .d.ts is generated
		case !slices.Contains([]string{".go", ".ts", ".tsx", ".md"}, path.Ext(name)) || strings.HasSuffix(name, ".zh-CN.md") ||
			strings.HasSuffix(name, ".d.ts"):
			return nil
		}
		group.Go(func() error {
			src, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			found, err := proseOf(name, src)
			mu.Lock()
			defer mu.Unlock()
			byFile[name] = found
			return err
		})
		return nil
	})
	return byFile, errors.Join(err, group.Wait())
}

// shrunk returns the baseline without removed findings. A new file inherits the counts of a file with its base name
// that no longer exists.
func shrunk(baseline, counts map[place]int, exists func(file string) bool) map[place]int {
	known, orphans := map[string]bool{}, map[place]int{} // orphans are by base name
	for at, n := range baseline {
		known[at.file] = true
		if base := (place{path.Base(at.file), at.habit}); !exists(at.file) {
			orphans[base] = max(orphans[base], n)
		}
	}
	smaller := map[place]int{}
	for at, n := range counts {
		allowed := baseline[at]
		if !known[at.file] {
			allowed = orphans[place{path.Base(at.file), at.habit}]
		}
		if allowed > 0 {
			smaller[at] = min(n, allowed)
		}
	}
	return smaller
}

func TestProse(t *testing.T) {
	byFile, err := findProse()
	if err != nil || len(byFile) < 1000 {
		t.Fatalf("read %d files, which cannot be all: %v", len(byFile), err)
	}
	counts, baseline := map[place]int{}, map[place]int{}
	for name, found := range byFile {
		for _, f := range found {
			counts[place{name, habits[f.habit].name}]++
		}
	}
	text, err := os.ReadFile(proseBaseline)
	if errors.Is(err, fs.ErrNotExist) && *shrinkProse {
		baseline = counts // the first baseline
	} else if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := append(strings.Split(strings.TrimSpace(line), "\t"), "", "")
		if baseline[place{fields[0], fields[1]}], err = strconv.Atoi(fields[2]); err != nil {
			t.Fatalf("%s: %q: %v", proseBaseline, line, err)
		}
	}
	smaller := shrunk(baseline, counts, func(file string) bool { _, ok := byFile[file]; return ok })
	if *shrinkProse {
		var lines []string
		for at, n := range smaller {
			lines = append(lines, fmt.Sprintf("%s\t%s\t%d\n", at.file, at.habit, n))
		}
		slices.Sort(lines)
		if err := os.WriteFile(proseBaseline, []byte(strings.Join(lines, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		baseline = smaller
	} else if !maps.Equal(smaller, baseline) {
		t.Logf("%s can be lowered: go test -run TestProse . -args -shrink-prose", proseBaseline)
	}
	for _, name := range slices.Sorted(maps.Keys(byFile)) {
		for _, f := range byFile[name] {
			h := habits[f.habit]
			if n, allowed := counts[place{name, h.name}], baseline[place{name, h.name}]; n > allowed {
				t.Errorf("%s:%d: %s, %d times and %d allowed: %q\n\tCONTRIBUTING.md, How we write: %s.", name, f.line, h.name, n, allowed, f.sentence,
					h.rule)
			}
		}
	}
}

func TestProse_FindsHabits(t *testing.T) {
	const (
		goSource = "package p\n\n// F returns.\n//\n// It\n// was told of it.\nfunc F() error {\n\tlog.Warn(\"p: nobody reads it\")\n\treturn " +
			"errors.New(\"no one reads it\")\n}\n\nvar op = web.Op{Summary: \"Have a \" + \"card by now\"}\n"
		tsSource = "/** A\n * text\n *\n * tells it here. */\nconst a = \"nobody is here // x\"; // Somebody\n// is here.\n"
	)
	for _, test := range []struct{ file, text, want string }{
		{"a.md", "Join adds the caller to the room.", ""},
		{"a.md", "Whoever joins the room reads only.", "1 headless subject"},
		{"a.md", "What does a room cost?", ""},
		{"a.md", "**A bold start.** What does follow is found.", "1 headless subject"},
		{"a.md", "The node waits: nobody reads the channel.", "1 vague actor"},
		{"a.md", "The node waits.\nIt tells the others what changed.", "2 talking machine"},
		{"a.md", "The upload stands elsewhere.", "1 standing data"},
		{"a.md", "maxGroups is of how many groups members are read.", "1 how many"},
		{"a.md", "It is the group of which the user is a member.", "1 preposition before which"},
		{"a.md", "The stream is not there any more.", "1 rare adverb"},
		{"a.md", "It has all sessions of a device be compared.", "1 causative have"},
		{"a.md", "A call of `tell`, and `if somebody\ntells` is code.\n```\nsomebody tells it\n```\n", ""},
		{"a.md", strings.Repeat("word ", 31), "1 over 30 words"},
		{"a.md", strings.Repeat("word ", 20) + "end. " + strings.Repeat("more ", 20), ""},
		{"a.md", "# A heading tells much\n\n- Somebody waits.\n- The user was told.", "3 vague actor, 4 talking machine"},
		{"a.md", "| What a user sees | The value |", "1 headless subject"},
		{"a.go", goSource, "5 talking machine, 8 vague actor, 9 vague actor, 12 rare adverb"},
		{"web/src/a.ts", tsSource, "4 talking machine, 5 vague actor, 5 vague actor"},
		{"lib/a.ts", tsSource, "4 talking machine, 5 vague actor"},
		{"a.ts", "// Generated \n" + tsSource, ""},
	} {
		found, err := proseOf(test.file, []byte(test.text))
		var got []string
		for _, f := range found {
			got = append(got, fmt.Sprintf("%d %s", f.line, habits[f.habit].name))
		}
		if strings.Join(got, ", ") != test.want || err != nil {
			t.Errorf("%s: %q has %q, %v; want %q", test.file, test.text, got, err, test.want)
		}
	}
}

func TestProse_ShrinksOnly(t *testing.T) {
	at := func(file string) place { return place{file, "vague actor"} }
	baseline := map[place]int{at("kept.go"): 3, at("fixed.go"): 1, at("kept/doc.go"): 9, at("old/doc.go"): 2}
	counts := map[place]int{at("kept.go"): 4, at("new.go"): 1, at("new/doc.go"): 5}
	got := shrunk(baseline, counts, func(file string) bool { return file != "old/doc.go" })
	if want := (map[place]int{at("kept.go"): 3, at("new/doc.go"): 2}); !maps.Equal(got, want) {
		t.Errorf("shrunk: got %v, want %v", got, want)
	}
}
