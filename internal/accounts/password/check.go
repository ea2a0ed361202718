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

// Errors of [Check].
var (
	ErrLength = errors.New("password: not 8 to 128 characters")
	ErrText   = errors.New("password: has control or unassigned characters")
	ErrCommon = errors.New("password: too common")
)

// Normalize returns the form of a password for hashing and comparing: OpaqueString of RFC 8265, so that the same
// characters from another keyboard are the same password. It returns ErrText for invalid text.
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

// Check returns the normalized form of a new password, or ErrLength, ErrText or ErrCommon. known lists public facts of
// the owner, such as the address and the name.
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

// leastRest is the number of characters that a password needs in addition to a common part: attackers try four digits,
// such as a year, with each word.
const leastRest = 5

// guessedFirst reports whether a password is common, a run, a repetition of few characters or made of known facts,
// except for fewer than leastRest characters.
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

// contains reports whether s is word, except for fewer than leastRest characters.
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

// repeats reports whether s is a shorter text repeated, possibly cut at the end, that is too short for a password.
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

// rows are sequences that people type: rows and columns of keyboards, digits, the alphabet.
var rows = []string{
	"1234567890", "0123456789", "qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "azertyuiop",
	"abcdefghijklmnopqrstuvwxyz", "1qaz2wsx3edc4rfv5tgb6yhn7ujm", "qazwsxedcrfvtgbyhnujm", "1q2w3e4r5t6y7u8i9o0p",
}

// isRun reports whether s consists of runs of three or more characters along rows, forwards or backwards, except for
// fewer than leastRest characters.
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

// longestRun returns the number of bytes at the start of s that follow one row.
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

// signs are characters that people write instead of letters.
var signs = strings.NewReplacer("@", "a", "4", "a", "3", "e", "1", "i", "!", "i", "0", "o", "$", "s", "5", "s", "7", "t", "+", "t")

// plain returns s with its signs replaced by letters.
func plain(s string) string { return signs.Replace(s) }

// letters returns s without other characters before and after the word.
func letters(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
}

// commonText contains the passwords of four or more characters from the list of the zxcvbn project (Dropbox, MIT
// licence), which was counted in published leaks: one per line, in lower case.
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
