package servicekeys

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
)

// ID identifies a key. It replaces the user id in limits and log lines.
type ID = ids.ID[Key]

// Key is a service key of an app's own backend.
type Key struct {
	ID       ID
	Name     string
	Scopes   []Scope
	Rate     int // requests per minute
	Created  time.Time
	Expires  time.Time // zero means never
	Used     time.Time // accurate to some seconds; zero means never
	OldUntil time.Time // end of the validity of the secret before the rotation; zero means there was none

	hash, oldHash string

	olderHash  string // of the secret before the old one, in use if the response with the old one was lost
	olderUntil time.Time
}

// good reports whether a secret is valid for the key at that time.
func (k Key) good(secretHash string, now time.Time) bool {
	if !k.Expires.IsZero() && !now.Before(k.Expires) {
		return false
	}
	return same(k.hash, secretHash) || now.Before(k.OldUntil) && same(k.oldHash, secretHash) || now.Before(k.olderUntil) &&
		same(k.olderHash, secretHash)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Scope is a permission of a key.
type Scope string

// The scopes. Those of chats, groups, friends and check-in are for calls as a user.
const (
	UsersRead    Scope = "users:read"    // read users
	UsersWrite   Scope = "users:write"   // create accounts and change profiles
	UsersBan     Scope = "users:ban"     // ban, unban, log out
	UsersErase   Scope = "users:erase"   // delete accounts
	TokensIssue  Scope = "tokens:issue"  // log in devices of users
	MessagesSend Scope = "messages:send" // send messages from any user to any other, and system messages
	GroupsManage Scope = "groups:manage" // create groups, and add and remove any members
	ChatsRead    Scope = "chats:read"
	ChatsWrite   Scope = "chats:write"
	GroupsRead   Scope = "groups:read"
	GroupsWrite  Scope = "groups:write"
	FriendsRead  Scope = "friends:read"
	FriendsWrite Scope = "friends:write"
	CheckinRead  Scope = "checkin:read"
	CheckinWrite Scope = "checkin:write"
)

// Scopes lists all scopes.
var Scopes = []Scope{UsersRead, UsersWrite, UsersBan, UsersErase, TokensIssue, MessagesSend, GroupsManage, ChatsRead, ChatsWrite,
	GroupsRead, GroupsWrite, FriendsRead, FriendsWrite, CheckinRead, CheckinWrite}

// own lists the scopes of the operations for keys only, by operation id.
var own = map[string]Scope{
	"service.users":        UsersWrite,
	"service.user":         UsersRead,
	"service.user_update":  UsersWrite,
	"service.user_delete":  UsersErase,
	"service.user_ban":     UsersBan,
	"service.user_unban":   UsersBan,
	"service.user_logout":  UsersBan,
	"service.user_tokens":  TokensIssue,
	"service.messages":     MessagesSend,
	"service.group_create": GroupsManage,
	"service.group_join":   GroupsManage,
	"service.group_remove": GroupsManage,
}

// reads reports whether a scope only allows reading.
func (s Scope) reads() bool { return strings.HasSuffix(string(s), ":read") }

// acts lists the tags of operations that a key can call as a user, with the first part of the scope. The second part is
// read or write.
var acts = map[string]string{"chats": "chats", "groups": "groups", "friends": "friends", "blocks": "friends", "check-in": "checkin"}

// Need returns the scope that an operation needs, by its id, method and tags, and whether the key acts as a user. An
// empty scope means that no key may call it.
func Need(id, method string, tags []string) (need Scope, acting bool) {
	if scope, ok := own[id]; ok {
		return scope, false
	}
	if len(tags) != 1 || acts[tags[0]] == "" {
		return "", false
	}
	if method == "GET" {
		return Scope(acts[tags[0]] + ":read"), true
	}
	return Scope(acts[tags[0]] + ":write"), true
}

// Errors of the package.
var (
	ErrKey     = errs.New(errs.Unauthenticated, "service.key_invalid", "The service key is wrong, expired or revoked.")
	ErrScope   = errs.New(errs.Forbidden, "service.scope", "The service key lacks the required scope.")
	ErrClosed  = errs.New(errs.Forbidden, "service.closed", "No service key may call this operation.")
	ErrAs      = errs.New(errs.Invalid, "service.act_as", "Name the user in Stoa-Act-As, except under /v1/service.")
	ErrName    = errs.New(errs.Invalid, "service.name_invalid", "A service key's name is 1 to 60 printable characters.")
	ErrTaken   = errs.New(errs.Conflict, "service.name_taken", "There is a service key of this name.")
	ErrMany    = errs.New(errs.Conflict, "service.keys_full", "The number of service keys is at its maximum. Revoke one.")
	ErrUnknown = errs.New(errs.NotFound, "service.key_unknown", "There is no such service key.")
	ErrStore   = errs.New(errs.Unavailable, "service.store_away",
		"Service keys cannot be checked right now. Please try again.").Retry(2 * time.Second)
)

// AuthErrors lists the errors for a caller with a key.
var AuthErrors = []*errs.Error{ErrKey, ErrScope, ErrClosed, ErrAs, ErrStore, accounts.ErrBanned}

// Prefix is the start of each key. No user's token starts with it.
const Prefix = "sk_"

// newToken returns the token of a key, and its hash.
func newToken(id ID) (token, hash string) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	token = Prefix + id.String() + "." + base64.RawURLEncoding.EncodeToString(secret)
	return token, hashOf(token)
}

// parse returns the id in a key, or ErrKey.
func parse(token string) (ID, error) {
	name, secret, ok := strings.Cut(strings.TrimPrefix(token, Prefix), ".")
	id, err := ids.Parse[Key](name)
	if !ok || err != nil || secret == "" {
		return ID{}, ErrKey
	}
	return id, nil
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// ParseScopes returns the scopes with the given names, without duplicates. Its error names the first unknown scope.
func ParseScopes(names []string) (list []Scope, err error) {
	for _, n := range names {
		if !slices.Contains(Scopes, Scope(n)) {
			return nil, errs.New(errs.Invalid, "service.scope_unknown", "There is no such scope as "+n+".")
		}
		list = append(list, Scope(n))
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
