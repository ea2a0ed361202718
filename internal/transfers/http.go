package transfers

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/transfers/storage"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Rate limits. A client with an unstable connection requests a link for each try. A client that uploads one megabyte
// per request over a fast connection sends hundreds of requests a minute.
var (
	pieceLimit = ratelimit.Limit{Max: 3000, Window: time.Minute}
	fetchLimit = ratelimit.Limit{Max: 1200, Window: time.Minute}
)

// Routes adds the operations of this package to a.
func (s *Service) Routes(a *web.API) {
	tags := []string{"transfers"}
	between := []*errs.Error{ErrRefused, ErrYouBlock, social.ErrStore, accounts.ErrStore, ErrStore}
	offer := append([]*errs.Error{ErrSelf, ErrName, ErrSize, ErrSum, ErrQuota, ErrOpen, ErrUnknown, ids.ErrMalformed, accounts.ErrNoUser},
		between...)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/transfers", ID: "transfers.offer", Tags: tags, Status: http.StatusCreated,
		Summary: "Offer a file",
		Description: "Offers a file to another user, or starts an upload for messages. The receiver accepts or rejects an offer. The file is " +
			"then uploaded to /v1/transfers/{transfer}/upload by any client of tus 1.0. Without `to` it can be uploaded at once, and messages " +
			"can use its id in their media. A refusal does not show whether a block or a setting causes it.",
		Errors: offer}, s.postTransfer)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/transfers", ID: "transfers.list", Tags: tags,
		Summary:     "List the caller's transfers",
		Description: "Sent and received transfers, newest first.", Errors: []*errs.Error{ErrCursor, ErrStore}}, s.getTransfers)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/transfers/{transfer}", ID: "transfers.get", Tags: tags,
		Summary:     "Get a transfer",
		Description: "Includes its progress.", Errors: []*errs.Error{ErrUnknown, ErrStore}}, s.getTransfer)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/transfers/{transfer}", ID: "transfers.cancel", Tags: tags,
		Summary: "Cancel a transfer",
		Description: "Both users can cancel. The stored bytes are deleted, also those of a finished transfer; an unfinished transfer becomes " +
			"failed. A file of messages cannot be cancelled: it is deleted when they are recalled.",
		Errors: []*errs.Error{ErrUnknown, ErrKept, ErrStore}}, s.deleteTransfer)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/transfers/{transfer}/accept", ID: "transfers.accept", Tags: tags,
		Status:  http.StatusOK,
		Summary: "Accept an offered file", Errors: append([]*errs.Error{ErrUnknown, ErrNotYours, ErrEnded}, between...)}, s.postAccept)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/transfers/{transfer}/reject", ID: "transfers.reject", Tags: tags,
		Status:  http.StatusOK,
		Summary: "Reject an offered file", Errors: []*errs.Error{ErrUnknown, ErrNotYours, ErrEnded, ErrStore}}, s.postReject)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/transfers/{transfer}/link", ID: "transfers.link", Tags: tags, NoReplay: true,
		Status:  http.StatusOK,
		Summary: "Get a link to a file",
		Description: "The link is valid for some minutes and needs no token. To resume an interrupted download, get another link and send a " +
			"Range.",
		Errors: []*errs.Error{ErrUnknown, ErrNotDone, ErrGone, ErrRefused, ErrYouBlock, social.ErrStore, ErrStore}}, s.postLink)
	web.HandlePublic(a, web.Op{Method: http.MethodGet, Path: "/v1/files/{link}", ID: "transfers.fetch", Tags: tags, Limit: fetchLimit,
		MediaType: octets,
		Summary:   "Download a file by link",
		Description: "The file is sent as octets and as an attachment. Only recordings of messages have their own type, and thumbnails are " +
			"sent as images for display. The ETag is the SHA-256 of the file.",
		Errors: []*errs.Error{ErrLink, ErrGone, accounts.ErrStore, social.ErrStore, ErrStorage, ErrStore}}, s.getFile)
	s.tusRoutes(a, tags, offer, between)
}

type transferPath struct {
	Transfer ID `path:"transfer" unknown:"transfer.unknown" doc:"the transfer's id"`
}

func (s *Service) answer(t Transfer, err error) (*web.Body[api.Transfer], error) {
	if err != nil {
		return nil, err
	}
	return web.NewBody(t.wire(t.progress(t.Stored, s.chunk))), nil
}

func (s *Service) postTransfer(ctx context.Context, caller accounts.Caller,
	in *web.Body[api.TransferOffer]) (*web.Body[api.Transfer], error) {
	var to accounts.ID
	if in.Body.To != "" {
		var err error
		if to, err = ids.Parse[accounts.User](in.Body.To); err != nil {
			return nil, ids.ErrMalformed.On("body.to", "is not an identifier")
		}
	}
	return s.answer(s.Offer(ctx, caller.User, Offer{ID: web.NewID[Transfer](ctx), To: to, Name: in.Body.Name, Media: in.Body.Type,
		Size: in.Body.Size, SHA256: in.Body.SHA256}))
}

func (s *Service) getTransfers(ctx context.Context, caller accounts.Caller, in *struct {
	Cursor string `query:"cursor" doc:"the next field of the previous page"`
}) (*web.Body[api.Transfers], error) {
	all, next, err := s.List(ctx, caller.User, in.Cursor)
	if err != nil {
		return nil, err
	}
	out := api.Transfers{Transfers: make([]api.Transfer, len(all)), Next: next}
	for i := range all {
		out.Transfers[i] = all[i].wire(all[i].progress(all[i].Stored, s.chunk))
	}
	return web.NewBody(out), nil
}

func (s *Service) getTransfer(ctx context.Context, caller accounts.Caller, in *transferPath) (*web.Body[api.Transfer], error) {
	t, received, err := s.Get(ctx, caller.User, in.Transfer)
	if err != nil {
		return nil, err
	}
	return web.NewBody(t.wire(t.progress(received, s.chunk))), nil
}

// inTransfer handles a verb on one of the caller's transfers.
func (s *Service) inTransfer(ctx context.Context, caller accounts.Caller, in *transferPath,
	verb func(context.Context, accounts.ID, ID) (Transfer, error)) (*web.Body[api.Transfer], error) {
	return s.answer(verb(ctx, caller.User, in.Transfer))
}

func (s *Service) deleteTransfer(ctx context.Context, caller accounts.Caller, in *transferPath) (*web.Body[api.Transfer], error) {
	return s.inTransfer(ctx, caller, in, s.Cancel)
}

func (s *Service) postAccept(ctx context.Context, caller accounts.Caller, in *transferPath) (*web.Body[api.Transfer], error) {
	return s.inTransfer(ctx, caller, in, s.Accept)
}

func (s *Service) postReject(ctx context.Context, caller accounts.Caller, in *transferPath) (*web.Body[api.Transfer], error) {
	return s.inTransfer(ctx, caller, in, s.Reject)
}

func (s *Service) postLink(ctx context.Context, caller accounts.Caller, in *transferPath) (*web.Body[api.FileLink], error) {
	link, err := s.Link(ctx, caller.User, in.Transfer)
	return web.NewBody(link), err
}

// mostRanges is the largest number of ranges in one response. For more ranges, the whole file is sent, as RFC 9110,
// section 14.2, allows. Each range is a request to the storage, and one header can have thousands.
const mostRanges = 32

const octets = "application/octet-stream"

// fileReply is the response with a file. Files of users are never shown in the server's own origin. They have a type
// that no browser executes, and browsers save them. The policy disables everything if a browser opens one anyway.
type fileReply struct {
	Type        string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Policy      string `header:"Content-Security-Policy"`
	Resource    string `header:"Cross-Origin-Resource-Policy"`
	Cache       string `header:"Cache-Control"`
	ETag        string `header:"ETag"`
	Serve       http.HandlerFunc
}

func (s *Service) getFile(ctx context.Context, in *struct {
	Link string `path:"link" doc:"the token of a link from transfers.link"`
}) (*fileReply, error) {
	f, err := s.Fetch(ctx, in.Link)
	if err != nil {
		return nil, err
	}
	kind := "attachment"
	if f.Inline {
		kind = "inline"
	}
	return &fileReply{
		Type: cmp.Or(f.Type, octets), Disposition: disposition(kind, f.Name), Policy: "default-src 'none'; frame-ancestors 'none'; sandbox",
		Resource: "same-origin",
		Cache:    "private, no-store", ETag: `"` + f.Tag + `"`,
		Serve: func(w http.ResponseWriter, r *http.Request) {
			c := f.Content
			defer c.Close()
			if strings.Count(r.Header.Get("Range"), ",") >= mostRanges {
				r.Header.Del("Range")
			}
			late := &lateHeader{ResponseWriter: w}
			http.ServeContent(late, r, "", f.Changed, c)
			s.metrics.sent.Add(float64(c.read))
			switch {
			case c.fault == nil:
				late.send()
			case late.sent:
				s.log.Warn("transfers: download interrupted", "file", f.Tag, "err", c.fault)
			default:
				for _, name := range []string{"Accept-Ranges", "Content-Disposition", "Content-Range", "Etag", "Last-Modified"} {
					w.Header().Del(name)
				}
				if storage.IsMissing(c.fault) { // it ended a moment ago
					c.fault = ErrGone
				}
				web.RefuseError(r, asStorage(c.fault))
			}
		},
	}, nil
}

// lateHeader sends the header of a response with its first bytes, so that unreadable content becomes an error response.
type lateHeader struct {
	http.ResponseWriter
	status int
	sent   bool
}

// WriteHeader implements http.ResponseWriter.
func (w *lateHeader) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *lateHeader) Write(b []byte) (int, error) {
	w.send()
	return w.ResponseWriter.Write(b)
}

func (w *lateHeader) send() {
	if !w.sent && w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
	}
	w.sent = true
}
