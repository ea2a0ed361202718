package transfers

import (
	"context"
	"crypto/md5"  //nolint:gosec // what clients choose
	"crypto/sha1" //nolint:gosec // tus wants it
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"hash"
	"net/http"
	"strconv"
	"strings"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
)

// The supported parts of tus 1.0: https://tus.io/protocols/resumable-upload
const (
	tusVersion    = "1.0.0"
	tusExtensions = "creation,checksum,expiration,termination"
	tusChecksums  = "sha1,sha256,md5"
)

// tusStatuses maps errors to their statuses in tus 1.0. Clients stop at 410 and retry after 409.
var tusStatuses = map[string]int{
	"transfer.tus":            http.StatusBadRequest,
	"transfer.tus_version":    http.StatusPreconditionFailed,
	"transfer.size":           http.StatusRequestEntityTooLarge,
	"transfer.gone":           http.StatusGone,
	"transfer.piece_checksum": 460,
}

func (s *Service) tusRoutes(a *web.API, tags []string, offer, between []*errs.Error) {
	const path = "/v1/transfers/{transfer}/upload"
	options := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Tus-Resumable", tusVersion)
		h.Set("Tus-Version", tusVersion)
		h.Set("Tus-Extension", tusExtensions)
		h.Set("Tus-Checksum-Algorithm", tusChecksums)
		h.Set("Tus-Max-Size", strconv.FormatInt(s.cfg.MaxSize, 10))
		w.WriteHeader(http.StatusNoContent)
	})
	a.Raw("OPTIONS "+path, options)
	a.Raw("OPTIONS /v1/uploads", options)
	a.MethodOverride(path)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/uploads", ID: "uploads.create", Tags: tags, Status: http.StatusCreated,
		Statuses: tusStatuses, Replay: createdAgain,
		Summary: "Create an upload by tus",
		Description: "Upload-Metadata has `filename` and optionally `to`, `filetype` and `sha256`, each in base64. The upload continues at " +
			"Location. With `to`, the receiver must accept first: until then the response is 409, which clients of tus retry.",
		Errors: append([]*errs.Error{ErrTusOf, errVersion}, offer...)}, s.postUpload)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: path, ID: "uploads.get", Tags: tags, Statuses: tusStatuses,
		Summary: "Get the offset of an upload",
		Description: "Clients of tus send HEAD. Bytes before Upload-Offset are stored durably. A cancelled, rejected, failed or deleted " +
			"upload returns 410.",
		Errors: []*errs.Error{ErrUnknown, ErrGone, ErrStore}}, s.getUpload)
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: path, ID: "uploads.append", Tags: tags, Status: http.StatusNoContent,
		Limit: pieceLimit, Statuses: tusStatuses,
		Summary: "Upload a part of a file",
		Description: "Upload-Offset must be the current offset of the upload. Bytes that arrive before an interruption count. A node accepts " +
			"two requests for a transfer at once; a third one ends the oldest. With Upload-Checksum (sha1, sha256 or md5, and the sum in " +
			"base64), all bytes of the request count or none: a mismatch returns 460. Clients that cannot send PATCH send POST with the header " +
			"X-HTTP-Method-Override.",
		Errors: append([]*errs.Error{ErrBusy, ErrUnknown, ErrNotYours, ErrWaiting, ErrEnded, ErrGone, ErrOffset, ErrTooLong, ErrSmall, ErrCut,
			ErrTusOf, errVersion, ErrPiece, ErrSumFails,
			ErrStorage, ErrFull}, between...)}, s.patchUpload)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: path, ID: "uploads.remove", Tags: tags, Status: http.StatusNoContent,
		Summary: "Cancel a transfer by tus", Errors: []*errs.Error{ErrUnknown, ErrKept, ErrStore}}, s.deleteUpload)
}

// tusReply has the headers for clients of tus.
type tusReply struct {
	Resumable string `header:"Tus-Resumable"`
	Offset    string `header:"Upload-Offset"`
	Length    string `header:"Upload-Length"`
	Expires   string `header:"Upload-Expires"`
}

func tusResponse(t *Transfer) tusReply {
	out := tusReply{Resumable: tusVersion, Offset: strconv.FormatInt(t.Stored, 10), Length: strconv.FormatInt(t.Size, 10)}
	if !t.Status.final() {
		out.Expires = t.Expires.Format(http.TimeFormat)
	}
	return out
}

// errVersion is the error for a client with another version of tus.
var errVersion = errs.New(errs.Invalid, "transfer.tus_version", "The tus version is not supported. Use tus 1.0.0.")

// tusHeaders sets the headers that clients of tus expect in every response.
func tusHeaders(ctx context.Context, version string) error {
	web.Header(ctx).Set("Tus-Resumable", tusVersion)
	if version != "" && version != tusVersion {
		web.Header(ctx).Set("Tus-Version", tusVersion)
		return errVersion
	}
	return nil
}

func (s *Service) postUpload(ctx context.Context, caller accounts.Caller, in *struct {
	Resumable string `header:"Tus-Resumable"`
	Length    string `header:"Upload-Length"`
	Metadata  string `header:"Upload-Metadata"`
	Concat    string `header:"Upload-Concat" doc:"refused: the extension concatenation is not supported"`
}) (*createReply, error) {
	if err := tusHeaders(ctx, in.Resumable); err != nil {
		return nil, err
	}
	if in.Concat != "" {
		return nil, ErrTusOf.On("header.Upload-Concat", "is not supported: upload the file in one piece after another")
	}
	size, err := strconv.ParseInt(in.Length, 10, 64)
	if err != nil || size <= 0 {
		return nil, ErrTusOf.On("header.Upload-Length", "is not a number of bytes above 0")
	}
	meta, ok := metadata(in.Metadata)
	if !ok {
		return nil, ErrTusOf.On("header.Upload-Metadata", "cannot be read")
	}
	var to accounts.ID
	if text, found := meta["to"]; found {
		if to, err = ids.Parse[accounts.User](text); err != nil {
			return nil, ErrTusOf.On("header.Upload-Metadata", "has no user in to")
		}
	}
	t, err := s.Offer(ctx, caller.User, Offer{ID: web.NewID[Transfer](ctx), To: to, Name: meta["filename"], Media: meta["filetype"],
		Size: size, SHA256: meta["sha256"]})
	if err != nil {
		return nil, err
	}
	return &createReply{tusResponse(&t), uploadPath(t.ID.String()), t.wire(t.progress(0, s.chunk))}, nil
}

// createReply is tusReply with the address of the upload.
type createReply struct {
	tusReply
	Location string `header:"Location"`
	Body     api.Transfer
}

// createdAgain sets the headers of the first response in a retry of a creation.
func createdAgain(h http.Header, body []byte) {
	var t api.Transfer
	if json.Unmarshal(body, &t) != nil {
		return
	}
	h.Set("Tus-Resumable", tusVersion)
	h.Set("Location", uploadPath(t.ID))
	h.Set("Upload-Offset", "0")
	h.Set("Upload-Length", strconv.FormatInt(t.Size, 10))
	h.Set("Upload-Expires", t.Expires.UTC().Format(http.TimeFormat))
}

func uploadPath(id string) string { return "/v1/transfers/" + id + "/upload" }

// metadata parses an Upload-Metadata header: names, each with a base64 value or none.
func metadata(text string) (map[string]string, bool) {
	all := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), " ")
		if name == "" {
			continue
		}
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
		if _, twice := all[name]; err != nil || twice {
			return nil, false
		}
		all[name] = string(decoded)
	}
	return all, true
}

// tusPath is transferPath for tus: its handlers set the headers of tus before they refuse a malformed id.
type tusPath struct {
	Transfer string `path:"transfer" doc:"the transfer's id"`
}

// id returns the transfer of the path, or ErrUnknown.
func (in tusPath) id() (ID, error) {
	id, err := ids.Parse[Transfer](in.Transfer)
	if err != nil {
		return id, ErrUnknown
	}
	return id, nil
}

// uploadReply is tusReply with the transfer as its body.
type uploadReply struct {
	tusReply
	Body api.Transfer
}

func (s *Service) getUpload(ctx context.Context, caller accounts.Caller, in *tusPath) (*uploadReply, error) {
	_ = tusHeaders(ctx, "") // for any version
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	t, received, err := s.Get(ctx, caller.User, id)
	switch {
	case err != nil:
		return nil, err
	case t.withoutFile():
		return nil, ErrGone
	}
	return &uploadReply{tusResponse(&t), t.wire(t.progress(received, s.chunk))}, nil
}

func (s *Service) deleteUpload(ctx context.Context, caller accounts.Caller, in *tusPath) (*web.Empty, error) {
	_ = tusHeaders(ctx, "")
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	_, err = s.Cancel(ctx, caller.User, id)
	return nil, err
}

func (s *Service) patchUpload(ctx context.Context, caller accounts.Caller, in *struct {
	tusPath
	Resumable string      `header:"Tus-Resumable"`
	Offset    string      `header:"Upload-Offset"`
	Checksum  string      `header:"Upload-Checksum" doc:"sha1, sha256 or md5, a space, and the sum of this piece in base64"`
	Stream    *web.Stream `contentType:"application/offset+octet-stream"`
}) (*tusReply, error) {
	if err := tusHeaders(ctx, in.Resumable); err != nil {
		return nil, err
	}
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	piece := Piece{Length: in.Stream.Length, Body: in.Stream, Cut: in.Stream.Cut}
	if piece.Offset, err = strconv.ParseInt(in.Offset, 10, 64); err != nil {
		piece.Offset = -1 // a foreign transfer is unknown in any case
	}
	if in.Checksum != "" {
		name, sum, _ := strings.Cut(in.Checksum, " ")
		sums := map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "md5": md5.New}
		want, err := base64.StdEncoding.DecodeString(sum)
		if err != nil || sums[name] == nil {
			return nil, ErrTusOf.On("header.Upload-Checksum", "is none of "+tusChecksums)
		}
		piece.Sum, piece.Want = sums[name](), want
	}
	t, err := s.Upload(ctx, caller.User, id, piece)
	if err != nil {
		return nil, err
	}
	out := tusResponse(&t)
	return &out, nil
}
