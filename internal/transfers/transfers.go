package transfers

import (
	"crypto/rand"
	"errors"
	"fmt"
	"mime"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/transfers/storage"
)

// ID identifies a transfer.
type ID = ids.ID[Transfer]

// Status is the status of a transfer. Its number is stored in rows and keys, so it never changes.
type Status int

// The values of Status. The last three are final.
const (
	Pending Status = iota
	Transferring
	Done
	Failed
	Rejected
)

var statuses = [...]string{api.TransferPending, api.TransferTransferring, api.TransferDone, api.TransferFailed, api.TransferRejected}

// String returns the name in the API.
func (s Status) String() string { return statuses[s] }

func (s Status) final() bool { return s >= Done }

// Reasons of failed transfers. They are stored in rows and part of the API.
const (
	reasonCancelled = "cancelled"
	reasonExpired   = "expired"
	reasonChecksum  = "checksum" // the bytes do not have the SHA-256 that their sender declared
	reasonScan      = "scan"     // the scanner refused the file
	reasonErased    = "erased"   // the account of the sender or receiver is erased
)

// Transfer is a row: a file that one user sends to another. If To is zero it is an upload for messages.
type Transfer struct {
	ID       ID
	From, To accounts.ID
	Name     string // see cleanName
	Media    string
	Size     int64
	SHA256   string // in hex; "" until it is known
	Status   Status
	Reason   string // why it failed
	Stored   int64  // bytes that count
	state    []byte // of SHA-256 after the stored bytes
	Content  bool   // parts may exist
	Created  time.Time
	Updated  time.Time
	Expires  time.Time // when it fails, loses its content or is deleted

	description *Description // for a change that completes an upload
}

// Description describes the content of a file for messages. It is zero for a file that is neither a picture nor a
// recording.
type Description struct {
	Type          string // the real type (image/… or audio/…), not the sender's
	Width, Height int    // of a picture, upright
	Duration      time.Duration
	Thumbnails    []Thumbnail // the largest first
}

// Thumbnail is a smaller copy of a picture, encoded by the server.
type Thumbnail struct {
	Side          int // the approximate upper limit of the longer side, in pixels
	Width, Height int
	Type          string
	part
}

// forMessages reports whether the file has no receiver and is for messages.
func (t *Transfer) forMessages() bool { return t.To.IsZero() }

// never is the expiry of files that messages have.
var never = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// isPermanent reports whether messages have the file.
func (t *Transfer) isPermanent() bool { return t.Expires.Equal(never) }

// has reports whether a user is the sender or the receiver.
func (t *Transfer) has(user accounts.ID) bool { return user == t.From || user == t.To }

// withoutFile reports whether the transfer has ended without a file, or its file was deleted.
func (t *Transfer) withoutFile() bool { return t.Status.final() && !t.Content }

// uploaded reports whether every byte is stored and the scanner has not decided.
func (t *Transfer) uploaded() bool { return t.Status == Transferring && t.Stored == t.Size }

// end sets a final status. Only the status Done keeps the content.
func (t *Transfer) end(s Status, reason string, now time.Time, keep time.Duration) {
	t.Status, t.Reason, t.Expires, t.state = s, reason, now.Add(keep), nil
	t.Content = s == Done
}

// The errors of this package.
var (
	ErrUnknown  = errs.New(errs.NotFound, "transfer.unknown", "There is no such transfer.")
	ErrSelf     = errs.New(errs.Invalid, "transfer.self", "You cannot send files to yourself.")
	ErrName     = errs.New(errs.Invalid, "transfer.name", "The file's name is invalid. Choose another one.")
	ErrSize     = errs.New(errs.Invalid, "transfer.size", "The file is empty, or too large for this server.")
	ErrSum      = errs.New(errs.Invalid, "transfer.sha256", "A SHA-256 is 64 hexadecimal digits in lower case.")
	ErrRefused  = errs.New(errs.Forbidden, "transfer.refused", "This user does not accept files from you.")
	ErrYouBlock = errs.New(errs.Forbidden, "transfer.you_block", "You block this user.")
	ErrQuota    = errs.New(errs.TooMany, "transfer.quota", "You have reached today's limit for files. Try again tomorrow.").Retry(time.Hour)
	ErrOpen     = errs.New(errs.TooMany, "transfer.open",
		"Too many of your transfers are not finished. Finish or cancel some.").Retry(time.Minute)
	ErrBusy     = errs.New(errs.TooMany, "transfer.busy", "Too many uploads are running. Resume when one has ended.").Retry(10 * time.Second)
	ErrNotYours = errs.New(errs.Forbidden, "transfer.not_yours", "Only the other side of this transfer can do that.")
	ErrEnded    = errs.New(errs.Conflict, "transfer.ended", "The transfer has already ended or reached this state.")
	ErrWaiting  = errs.New(errs.Conflict, "transfer.not_accepted", "The file has not been accepted yet.").Retry(2 * time.Second)
	ErrOffset   = errs.New(errs.Conflict, "transfer.offset", "The upload offset does not match. Get the offset and resume.")
	ErrTooLong  = errs.New(errs.Invalid, "transfer.too_long", "The data exceeds the rest of the file.")
	ErrSmall    = errs.New(errs.Invalid, "transfer.too_small", "The upload has too many small pieces. Send larger ones.")
	ErrCut      = errs.New(errs.Invalid, "transfer.cut", "The upload was interrupted. Get the offset and resume.")
	ErrTusOf    = errs.New(errs.Invalid, "transfer.tus", "A tus header is missing or invalid. Send it again.")
	ErrSumFails = errs.New(errs.Invalid, "transfer.checksum", "The file's SHA-256 does not match. Start a new transfer.")
	ErrNotDone  = errs.New(errs.Conflict, "transfer.not_done", "The file is not complete yet. Try again later.")
	ErrKept     = errs.New(errs.Conflict, "transfer.kept", "A message contains this file. Recall the message instead.")
	ErrNoSmall  = errs.New(errs.NotFound, "transfer.no_thumbnail", "There is no thumbnail of this size.")
	ErrGone     = errs.New(errs.NotFound, "transfer.gone", "The file no longer exists.")
	ErrLink     = errs.New(errs.NotFound, "transfer.link", "The link is invalid or expired. Get a new one.")
	ErrCursor   = errs.New(errs.Invalid, "transfer.cursor", "This cursor was not given by this list.")
	ErrStore    = errs.New(errs.Unavailable, "transfer.store_away",
		"Transfers cannot be reached right now. Please try again.").Retry(2 * time.Second)
	ErrStorage = errs.New(errs.Unavailable, "transfer.storage_away",
		"The storage of files cannot be reached right now. Please try again.").Retry(5 * time.Second)
	ErrFull = errs.New(errs.Unavailable, "transfer.storage_full", "The storage of files is full. Please try again later.").Retry(time.Minute)
)

// Settings are the operator's settings.
type Settings struct {
	Storage  string        `koanf:"storage" default:"folder" secret:"url" help:"where files are: folder (files in the data folder), folder:/path, or s3://KEY:SECRET@host/bucket/prefix with ?region= and ?tls=false; nodes share it"`
	MaxSize  int64         `koanf:"max_size" default:"2147483648" help:"bytes of the largest file"`
	DayBytes int64         `koanf:"day_bytes" default:"10737418240" help:"bytes that a user may offer on a day (UTC)"`
	DayFiles int           `koanf:"day_files" default:"1000" help:"files that a user may offer on a day (UTC)"`
	Open     int           `koanf:"open" default:"20" help:"transfers of a user that are not finished, and uploads of a user that a node takes at once"`
	From     string        `koanf:"from" default:"friends" enum:"friends,everybody" help:"who may offer a file to a user; nobody over a block"`
	OfferFor time.Duration `koanf:"offer_for" default:"24h" help:"how long an offer can be accepted"`
	IdleFor  time.Duration `koanf:"idle_for" default:"24h" help:"how long an upload may bring nothing before it fails, or a whole one wait for a message"`
	KeepFor  time.Duration `koanf:"keep_for" default:"168h" help:"how long a file that was sent to a user can be fetched"`
	LinkFor  time.Duration `koanf:"link_for" default:"5m" help:"how long a link to a file is good"`
	Scan     string        `koanf:"scan" secret:"url" help:"what looks at each file before it can be fetched: a command that reads it (exit code 0 passes, 1 refuses), or an http(s) address that it is posted to (2xx passes, 422 refuses); empty: nothing"`
	ScanTime time.Duration `koanf:"scan_time" default:"5m" help:"how long that may take for one file"`
}

// Validate returns all faults, joined.
func (s Settings) Validate() error {
	config.Defaults(&s)
	badStorage := storage.Check(s.Storage)
	short := func(d time.Duration, key string, least time.Duration) error {
		return config.Refuse(d < least, key, "%s is less than %s", d, least)
	}
	return errors.Join(
		config.Refuse(badStorage != nil, "storage", "%v", badStorage),
		config.Refuse(s.MaxSize < 1 || s.MaxSize > maxSize, "max_size", "%d is not between 1 and %d", s.MaxSize, int64(maxSize)),
		config.Refuse(s.DayBytes < 1, "day_bytes", "%d is less than 1", s.DayBytes),
		config.Refuse(s.DayFiles < 1, "day_files", "%d is less than 1", s.DayFiles),
		config.Refuse(s.Open < 1, "open", "%d is less than 1", s.Open),
		short(s.OfferFor, "offer_for", time.Minute), short(s.IdleFor, "idle_for", time.Minute),
		short(s.KeepFor, "keep_for", time.Minute), short(s.LinkFor, "link_for", 10*time.Second), short(s.ScanTime, "scan_time", time.Second))
}

const (
	// Chunk is the regular size of a part. The last part, and parts of interrupted requests, are shorter. A node that
	// is killed loses at most this many bytes of an upload.
	Chunk = 4 << 20

	// maxSize keeps the number of a file's parts below 300,000.
	maxSize = 1 << 40

	// mostShort is the largest number of a file's parts that are shorter than Chunk. An interrupted request makes one.
	// Without this limit, a client that sends little at a time would create a row for each request.
	mostShort = 1000

	// historyFor is the time until a transfer without a file is no longer listed.
	historyFor = 30 * 24 * time.Hour

	maxName  = 255 // bytes, as in most file systems
	maxMedia = 100
)

// cleanName returns a file name that every system accepts and that shows its real content. It removes folders, control
// and format characters (which can reverse text), and dots at either end. It changes names of devices. It returns
// ErrName if the name is not UTF-8 or nothing remains.
func cleanName(name string) (string, error) {
	if !utf8.ValidString(name) {
		return "", ErrName
	}
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r), r == utf8.RuneError:
			return -1
		case unicode.IsSpace(r):
			return ' '
		case strings.ContainsRune(`<>:"/|?*`, r):
			return '_'
		}
		return r
	}, name)
	name = strings.Trim(name, " .")
	if len(name) > maxName { // the extension remains
		ending := path.Ext(name)
		if len(ending) > 20 {
			ending = ""
		}
		name = strings.TrimRight(strings.ToValidUTF8(name[:maxName-len(ending)], ""), " .") + ending
	}
	stem, _, _ := strings.Cut(name, ".")
	switch stem = strings.ToUpper(strings.TrimSpace(stem)); {
	case words.Blank(stem) || name == "_":
		return "", ErrName
	case stem == "CON", stem == "PRN", stem == "AUX", stem == "NUL",
		len(stem) == 4 && (strings.HasPrefix(stem, "COM") || strings.HasPrefix(stem, "LPT")) && stem[3] >= '0' && stem[3] <= '9':
		name = "_" + name
	}
	return strings.ToValidUTF8(name[:min(len(name), maxName)], ""), nil
}

// cleanMedia returns a media type for display only. Files are always served as octets.
func cleanMedia(media string) string {
	kind, _, err := mime.ParseMediaType(media)
	if err != nil || len(kind) > maxMedia || !strings.Contains(kind, "/") {
		return "application/octet-stream"
	}
	return kind
}

func validSum(sum string) bool {
	return len(sum) == 64 && strings.Trim(sum, "0123456789abcdef") == ""
}

// disposition returns a header that makes browsers save a file under its name (attachment), or show it (inline). It
// follows RFC 6266, with RFC 8187 for characters outside ASCII.
func disposition(kind, name string) string {
	var plain, coded strings.Builder
	for _, r := range name {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' {
			plain.WriteByte('_')
		} else {
			plain.WriteRune(r)
		}
	}
	for i := range len(name) {
		c := name[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$&+-.^_`|~", c) >= 0 {
			coded.WriteByte(c)
		} else {
			fmt.Fprintf(&coded, "%%%02X", c)
		}
	}
	return kind + `; filename="` + plain.String() + `"; filename*=UTF-8''` + coded.String()
}

// part is an object of the storage, and the bytes of the file that it has.
type part struct {
	start, size int64
	name        string
}

// newPart returns a part that begins at a byte. Its name has the time of its creation.
func newPart(id ID, start int64, now time.Time) part {
	return part{start: start, name: partName(id, strconv.FormatInt(start, 36), now)}
}

// newThumbnail returns the only part of a thumbnail.
func newThumbnail(id ID, side int, size int64, now time.Time) part {
	return part{size: size, name: partName(id, "t"+strconv.Itoa(side), now)}
}

func partName(id ID, kind string, now time.Time) string {
	return id.String() + "/" + kind + "-" + strconv.FormatInt(now.UnixMilli(), 36) + "-" + strings.ToLower(rand.Text()[:13])
}

// parsePart returns the transfer and the creation time of a part. It returns false for a name that this package did not
// create.
func parsePart(name string) (id ID, made time.Time, ok bool) {
	folder, file, _ := strings.Cut(name, "/")
	bits := strings.Split(file, "-")
	if len(bits) != 3 {
		return id, made, false
	}
	id, err := ids.Parse[Transfer](folder)
	ms, malformed := strconv.ParseInt(bits[1], 36, 64)
	return id, time.UnixMilli(ms).UTC(), err == nil && malformed == nil
}

// progress is the progress of an upload.
type progress struct {
	received      int64 // bytes; the last ones may not count yet
	percent       int
	chunk, chunks int64 // number of the present chunk and of all chunks
}

func (t *Transfer) progress(received, chunk int64) progress {
	received = min(received, t.Size)
	p := progress{received: received, percent: int(float64(received) / float64(t.Size) * 100), chunks: (t.Size + chunk - 1) / chunk}
	p.chunk = min(received/chunk+1, p.chunks)
	if t.Status == Pending || t.Status == Rejected {
		p.chunk = 0
	}
	return p
}

func (t *Transfer) wire(p progress) api.Transfer {
	return api.Transfer{ID: t.ID.String(), From: t.From.String(), To: t.To.String(), Name: t.Name, Type: t.Media, Size: t.Size,
		SHA256: t.SHA256,
		Status: t.Status.String(), Reason: t.Reason, Received: p.received, Percent: p.percent, Chunk: p.chunk, Chunks: p.chunks,
		Available: t.Status == Done && t.Content, Created: api.At(t.Created), Updated: api.At(t.Updated), Expires: api.At(t.Expires)}
}
