package adopt

import (
	"fmt"
	"slices"
	"testing"
)

func patterns(keys []string) (out []string) {
	tree := &node{}
	for _, k := range keys {
		tree.add(k, 0)
	}
	tree.settle()
	tree.walk("", func(shape string, n *node) {
		out = append(out, fmt.Sprint(familyOf(shape, n).Pattern, " ", n.ends))
	})
	return out
}

func each(n int, format string, of func(i int) any) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf(format, of(i)))
	}
	return keys
}

func TestShapes(t *testing.T) {
	t.Parallel()
	number := func(i int) any { return i }
	word := func(i int) any { return string([]rune{rune('a' + i%26), rune('a' + i/26), 'x'}) }
	drawn := []string{"V1StGXR8_Z5j", "Uakgb_J5m9g-", "0JDbXMqJLqvz", "N2lXJ8Wv4qNp", "abc-D3fG6hJk", "x9K-2LmP0qRs", "7-aB3dE6fGhI",
		"Qw3rTy5uI8oP", "Zx9cVb7nM2kL", "a1B2c3D4e5F6"}
	id := func(i int) any { return drawn[i%len(drawn)][:6] + fmt.Sprintf("%02d", i) + drawn[(i+3)%len(drawn)][6:] }
	for name, tt := range map[string]struct {
		keys []string
		want []string
	}{
		"numbers":         {each(30, "user:%d:profile", number), []string{"user:{user}:profile 30"}},
		"the same number": {each(30, "2026:user:%d", number), []string{"2026:user:{user} 30"}},
		"one key":         {[]string{"user:17"}, []string{"user:{user} 1"}},
		"versions":        {[]string{"v2:a", "md5:a", "s3:a"}, []string{"md5:a 1", "s3:a 1", "v2:a 1"}},
		"names of users":  {each(60, "follows:%s", word), []string{"follows:{follows} 60"}},
		"names with parts": {append(each(60, "user:%s:posts", word), each(60, "user:%s:likes", word)...),
			[]string{"user:{user}:likes 60", "user:{user}:posts 60"}},
		"words that are no names":   {[]string{"queue:mail", "queue:push", "queue:sms"}, []string{"queue:mail 1", "queue:push 1", "queue:sms 1"}},
		"identifiers":               {each(100, "card:%s", id), []string{"card:{card} 100"}},
		"numbers among identifiers": {append(each(100, "card:%s", id), "card:123456789012"), []string{"card:{card} 101"}},
		"in a level":                {each(30, "app.user-%d", number), []string{"app.user-{user} 30"}},
		"a hash tag":                {each(30, "room:{%d}:seats", number), []string{"room:{{room}}:seats 30"}},
		"letters before a number":   {each(30, "board:week%d", func(i int) any { return 202600 + i }), []string{"board:week{week} 30"}},
		"two arguments":             {each(30, "chat:%d:1", number), []string{"chat:{chat}:1 30"}},
		"e-mail addresses":          {each(60, "mail:%s@example.org", word), []string{"mail:{mail}@example.org 60"}},
		"UUIDs of few digits": {each(30, "t:11111111-1111-1111-1111-1111111111%d", func(i int) any {
			return 10 + i
		}), []string{"t:{t} 30"}},
		"not ASCII": {[]string{"名:1", "字:2"}, []string{"{id}:{id2} 2"}},
		"nothing":   {nil, nil},
	} {
		if got := patterns(tt.keys); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// A position with many keys for each word has literal words, not an argument.
func TestSettle_WordsWithManyKeysStayWords(t *testing.T) {
	t.Parallel()
	var keys []string
	for i := range maxLiteralWords + 6 {
		for j := range 3 * maxKeysPerArgument {
			keys = append(keys, fmt.Sprintf("kind%c:%d", 'a'+i, j))
		}
	}
	if got := patterns(keys); len(got) != maxLiteralWords+6 {
		t.Errorf("got %d patterns: %q", len(got), got)
	}
}

func TestTree_IsBounded(t *testing.T) {
	t.Parallel()
	tree := &node{}
	for i := range 3 * maxWords {
		s := ""
		for n := i + 1; n > 0; n /= 26 {
			s += string(rune('a' + n%26))
		}
		tree.add("name:"+s, 0)
	}
	if n := len(tree.children["name"].children[":"].children); n > maxWords {
		t.Errorf("one place has %d children", n)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"user:{id}:profile": "userProfile", "app.user-{user}": "appUser", "User_{id}": "user", "{id}": "key", "type:{id}": "keyType",
		"2026:{id}": "key", "time": "keyTime", "a:{{b}}:c": "aC",
	} {
		if got := variable(pattern); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
}
