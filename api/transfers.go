package api

// Where a transfer stands: Transfer.Status.
const (
	TransferPending      = "pending"      // 0 in Redis: it waits to be accepted
	TransferTransferring = "transferring" // 1: it is uploaded, or scanned
	TransferDone         = "done"         // 2
	TransferFailed       = "failed"       // 3
	TransferRejected     = "rejected"     // 4
)

// Events of transfers, to all devices of both users; of an upload for messages, to those of its sender.
const (
	EventTransferUpdated  = "transfer.updated"  // Transfer, whenever its status changes
	EventTransferProgress = "transfer.progress" // TransferProgress, at most ten times a second
)

// TransferOffer offers a file to another user, or begins an upload for messages: POST /v1/transfers.
type TransferOffer struct {
	To     string `json:"to,omitempty" example:"V1StGXR8_Z5j" doc:"the user who is to get it; empty: it is for messages"`
	Name   string `json:"name" minLength:"1" maxLength:"1024" example:"holiday.jpg" doc:"what the file is called; folders and what is no part of a name are left out"`
	Size   int64  `json:"size" minimum:"1" example:"48211" doc:"bytes"`
	Type   string `json:"type,omitempty" maxLength:"255" example:"image/jpeg" doc:"the media type, for show; downloads are octets in any case"`
	SHA256 string `json:"sha256,omitempty" pattern:"^[0-9a-f]{64}$" doc:"of the content, in hexadecimal; the transfer fails if it turns out to be another"`
}

// Transfer is a file on its way from a user to another, as both see it, or to messages, as its sender does.
type Transfer struct {
	ID     string `json:"id" example:"V1StGXR8_Z5j"`
	From   string `json:"from" example:"V1StGXR8_Z5j"`
	To     string `json:"to,omitempty" example:"Kx7mQ2pLw9Za" doc:"empty: it is for messages"`
	Name   string `json:"name" example:"holiday.jpg"`
	Type   string `json:"type" example:"image/jpeg"`
	Size   int64  `json:"size" example:"48211"`
	SHA256 string `json:"sha256,omitempty" doc:"what was declared; of a done transfer, what it is"`

	Status string `json:"status" enum:"pending,transferring,done,failed,rejected"`
	Reason string `json:"reason,omitempty" enum:"cancelled,expired,checksum,scan,erased" doc:"why it failed"`

	Received  int64 `json:"received" doc:"bytes that have come, a part of which may be asked for again"`
	Percent   int   `json:"percent" example:"40"`
	Chunk     int64 `json:"chunk" doc:"the chunk that is coming, from 1 on; 0 before the upload"`
	Chunks    int64 `json:"chunks" doc:"how many there are"`
	Available bool  `json:"available" doc:"the file can be fetched"`
	Created   Time  `json:"created"`
	Updated   Time  `json:"updated"`
	Expires   Time  `json:"expires" doc:"when an unfinished transfer fails, a file can be fetched no longer, or another one is forgotten; the year 9999 while messages have it"`
}

// Transfers are some of a user's, without files that messages have: GET /v1/transfers.
type Transfers struct {
	Transfers []Transfer `json:"transfers"`
	Next      string     `json:"next,omitempty" doc:"the cursor of the next page; empty: there is none"`
}

// TransferProgress is how far an upload has come: the data of transfer.progress.
type TransferProgress struct {
	ID       string `json:"id" example:"V1StGXR8_Z5j"`
	Received int64  `json:"received" doc:"bytes"`
	Size     int64  `json:"size" doc:"bytes"`
	Percent  int    `json:"percent" example:"40"`
	Chunk    int64  `json:"chunk" doc:"the chunk that is coming, from 1 on"`
	Chunks   int64  `json:"chunks" doc:"how many there are"`
}

// FileLink is where a file can be fetched: POST /v1/transfers/{transfer}/link, or that of a message
// POST /v1/chats/{chat}/messages/{seq}/file.
type FileLink struct {
	URL     string `json:"url" example:"/v1/files/…" doc:"a path of this server; it needs no token, and takes ranges"`
	Expires Time   `json:"expires" doc:"until when; a download that has begun goes on"`
}
