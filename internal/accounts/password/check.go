package password

import (
	_ "embed"
	"errors"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/secure/precis"
)

// A password has MinLength to MaxLength characters.
const (
	MinLength = 8
	MaxLength = 128
)

// The refusals of [Check].
var (
	ErrLength = errors.New("password: not 8 to 128 characters")
	ErrText   = errors.New("password: has control or unassigned characters")
	ErrCommon = errors.New("password: among the first that are guessed")
)

// Normalize returns the form of a password that is hashed and compared: RFC 8265's
// OpaqueString, so that the same keys on another keyboard give the same password. ErrText.
func Normalize(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", ErrText
	}
	normal, err := precis.OpaqueString.String(s)
	if err != nil {
		return "", ErrText
	}
	return normal, nil
}

// Check returns the form of a new password that is hashed, unless it is refused. known
// has what everybody knows of the owner: address, name. ErrLength, ErrText, ErrCommon.
func Check(s string, known ...string) (string, error) {
	if n := utf8.RuneCountInString(s); n < MinLength || n > MaxLength {
		return "", ErrLength
	}
	normal, err := Normalize(s)
	if err != nil {
		return "", err
	}
	if guessedFirst(normal, known) {
		return "", ErrCommon
	}
	return normal, nil
}

// leastRest is how many characters a password must have beside one that is guessed
// first: four digits, such as a year, are tried with every word.
const leastRest = 5

// guessedFirst reports whether a password is common, a run or a repetition of few
// characters, or made of what is known, but for fewer than leastRest characters.
func guessedFirst(s string, known []string) bool {
	s = strings.ToLower(s)
	if len(distinct(s)) < 4 || repeats(s) || isRun(s) {
		return true
	}
	for _, form := range []string{s, plain(s)} {
		word := letters(form)
		if common()[form] || common()[word] && utf8.RuneCountInString(s)-utf8.RuneCountInString(word) < leastRest {
			return true
		}
		for _, k := range known {
			if k = strings.ToLower(k); contains(form, k) {
				return true
			}
			if local, _, isAddress := strings.Cut(k, "@"); isAddress && contains(form, local) {
				return true
			}
		}
	}
	return false
}

// contains reports whether s is word, but for fewer than leastRest characters.
func contains(s, word string) bool {
	return utf8.RuneCountInString(word) >= leastRest && strings.Contains(s, word) &&
		utf8.RuneCountInString(s)-utf8.RuneCountInString(word) < leastRest
}

func distinct(s string) map[rune]bool {
	set := map[rune]bool{}
	for _, r := range s {
		set[r] = true
	}
	return set
}

// repeats reports whether s is a shorter text several times over, the last time perhaps
// in part, and that text is too short for a password.
func repeats(s string) bool {
	runes := []rune(s)
	for n := 1; n < MinLength && 2*n <= len(runes); n++ {
		same := true
		for i := n; same && i < len(runes); i++ {
			same = runes[i] == runes[i-n]
		}
		if same {
			return true
		}
	}
	return false
}

// rows are what fingers run along: a keyboard's rows and columns, digits, the alphabet.
var rows = []string{
	"1234567890", "0123456789", "qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "azertyuiop",
	"abcdefghijklmnopqrstuvwxyz", "1qaz2wsx3edc4rfv5tgb6yhn7ujm", "qazwsxedcrfvtgbyhnujm", "1q2w3e4r5t6y7u8i9o0p",
}

// isRun reports whether s is put together from runs of three or more characters along
// rows, forwards or backwards, but for fewer than leastRest characters.
func isRun(s string) bool {
	left := utf8.RuneCountInString(s)
	for rest := s; rest != ""; {
		n := longestRun(rest)
		if n >= 3 {
			left -= n
		}
		_, size := utf8.DecodeRuneInString(rest)
		rest = rest[max(n, size):]
	}
	return left < leastRest
}

// longestRun returns how many bytes of s, from its beginning, lie along one row.
func longestRun(s string) (longest int) {
	for _, row := range rows {
		for _, way := range []string{row, reverse(row)} {
			at := strings.IndexByte(way, s[0])
			if at < 0 {
				continue
			}
			n := 0
			for n < len(s) && at+n < len(way) && s[n] == way[at+n] {
				n++
			}
			longest = max(longest, n)
		}
	}
	return longest
}

func reverse(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// signs are what people write for letters.
var signs = strings.NewReplacer("@", "a", "4", "a", "3", "e", "1", "i", "!", "i", "0", "o", "$", "s", "5", "s", "7", "t", "+", "t")

// plain returns s with its signs read as letters.
func plain(s string) string { return signs.Replace(s) }

// letters returns s without what is put before and after a word to make it longer.
func letters(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
}

// commonText has the passwords of four characters and more from the list of the zxcvbn
// project (Dropbox, MIT licence), which were counted in published leaks: one in a line,
// in lower case.
//
//go:embed common.txt
var commonText string

var common = sync.OnceValue(func() map[string]bool {
	set := map[string]bool{}
	for line := range strings.Lines(commonText) {
		set[strings.TrimSuffix(line, "\n")] = true
	}
	return set
})
