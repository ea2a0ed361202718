package idempotency

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"net/http"
	"strconv"
)

// Record is a row of idempotency_keys. Times are Unix milliseconds.
type Record struct {
	Scope       string // "USER OPERATION"
	Key         string `bun:"idem_key"`
	RequestHash string // see Secrets
	Status      int    // 0 until a response is stored
	ContentType string
	Body        []byte
	Created     int64 // start of the first try; part of the request id
	Claimed     int64 // start of the running try; 0 if none runs
	Expires     int64
	Claim       int64 // identifies the running or last try, which owns the row; see newClaim

	// Not columns: the RequestHash as older nodes wrote it, and the one under [Secrets].Previous.
	plainHash, previousHash string
}

func (rec Record) row() rowKey { return rowKey{rec.Scope, rec.Key} }

// rowKey is the primary key.
type rowKey struct{ scope, key string }

// MaxID is the largest request id, so that it fits into BIGINT.
const MaxID = 1<<63 - 1

// name returns a name that is the same for every try of one request. It includes the time of the first try, because
// after a day the same key identifies another request.
func (rec Record) name() []byte {
	return []byte(rec.Scope + "\x00" + rec.Key + "\x00" + strconv.FormatInt(rec.Created, 10))
}

// RequestID returns the id of the request: 1 to 2⁶³−1. It is the same for every try.
func (rec Record) RequestID() uint64 {
	sum := sha256.Sum256(rec.name())
	return max(1, binary.BigEndian.Uint64(sum[:])&MaxID)
}

// Secrets are the keys of the stored hashes. All nodes have the same Current. Previous is the secret of the other nodes
// while the secret is rotated; nil: none.
type Secrets struct{ Current, Previous []byte }

// Record returns the record of a request, whose parts distinguish it from other requests with the key.
func (s Secrets) Record(scope, key string, parts ...string) Record {
	rec := Record{Scope: scope, Key: key, RequestHash: hashOf(s.mac(), parts), plainHash: hashOf(sha256.New(), parts)}
	if s.Previous != nil {
		rec.previousHash = hashOf(hmac.New(sha256.New, s.Previous), parts)
	}
	return rec
}

// Seed returns bytes of the request that are unpredictable without the secret. They are made with the secret that the
// first try used, so that each try has the same seed.
func (s Secrets) Seed(rec Record) []byte {
	mac := s.mac()
	if rec.previousHash != "" && rec.RequestHash == rec.previousHash {
		mac = hmac.New(sha256.New, s.Previous)
	}
	mac.Write(rec.name())
	return mac.Sum(nil)
}

// mac returns a hash under the current secret. From an unkeyed hash of a body with a password, a reader of the table
// could guess the password.
func (s Secrets) mac() hash.Hash { return hmac.New(sha256.New, s.Current) }

func hashOf(sum hash.Hash, parts []string) string {
	for _, part := range parts {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		sum.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// Key returns the Idempotency-Key of a request, or false if it is malformed.
func Key(h http.Header) (string, bool) {
	lines := h["Idempotency-Key"]
	if len(lines) != 1 || lines[0] == "" || len(lines[0]) > 128 {
		return "", false
	}
	for i := range len(lines[0]) {
		if c := lines[0][i]; c < ' ' || c > '~' {
			return "", false
		}
	}
	return lines[0], true
}
