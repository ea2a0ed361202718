package api

// Values of Transfer.Status.
const (
	TransferPending      = "pending"      // 0 in Redis: not accepted yet
	TransferTransferring = "transferring" // 1: being uploaded or scanned
	TransferDone         = "done"         // 2
	TransferFailed       = "failed"       // 3
	TransferRejected     = "rejected"     // 4
)

// Events of transfers, to all devices of both users; for an upload for messages, to those of its sender.
const (
	EventTransferUpdated  = "transfer.updated"  // Transfer, whenever its status changes
	EventTransferProgress = "transfer.progress" // TransferProgress, at most ten times a second
)

// TransferOffer offers a file to another user, or begins an upload for messages: POST /v1/transfers.
type TransferOffer struct {
	To     string `json:"to,omitempty" example:"V1StGXR8_Z5j" doc:"the recipient; empty: the upload is for messages"`
	Name   string `json:"name" minLength:"1" maxLength:"1024" example:"holiday.jpg" doc:"file name; folders and invalid characters are removed"`
	Size   int64  `json:"size" minimum:"1" example:"48211" doc:"bytes"`
	Type   string `json:"type,omitempty" maxLength:"255" example:"image/jpeg" doc:"media type for display; downloads are always octets"`
	SHA256 string `json:"sha256,omitempty" pattern:"^[0-9a-f]{64}$" doc:"hexadecimal hash of the content; a mismatch fails the transfer"`
}

// Transfer is a file from one user to another, as both see it, or for messages, as its sender sees it.
type Transfer struct {
	ID     string `json:"id" example:"V1StGXR8_Z5j"`
	From   string `json:"from" example:"V1StGXR8_Z5j"`
	To     string `json:"to,omitempty" example:"Kx7mQ2pLw9Za" doc:"empty: the upload is for messages"`
	Name   string `json:"name" example:"holiday.jpg"`
	Type   string `json:"type" example:"image/jpeg"`
	Size   int64  `json:"size" example:"48211"`
	SHA256 string `json:"sha256,omitempty" doc:"the declared hash; for a done transfer, the actual one"`

	Status string `json:"status" enum:"pending,transferring,done,failed,rejected"`
	Reason string `json:"reason,omitempty" enum:"cancelled,expired,checksum,scan,erased" doc:"reason of the failure"`

	Received  int64 `json:"received" doc:"bytes received; the last ones may be requested again"`
	Percent   int   `json:"percent" example:"40"`
	Chunk     int64 `json:"chunk" doc:"number of the current chunk, from 1; 0 before the upload"`
	Chunks    int64 `json:"chunks" doc:"number of chunks"`
	Available bool  `json:"available" doc:"the file can be downloaded"`
	Created   Time  `json:"created"`
	Updated   Time  `json:"updated"`
	Expires   Time  `json:"expires" doc:"end of the unfinished transfer, of the file, or of the finished transfer's record; the year 9999 while messages use the file"`
}

// Transfers is a page of a user's transfers, without files of messages: GET /v1/transfers.
type Transfers struct {
	Transfers []Transfer `json:"transfers"`
	Next      string     `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
}

// TransferProgress is the progress of an upload: the data of transfer.progress.
type TransferProgress struct {
	ID       string `json:"id" example:"V1StGXR8_Z5j"`
	Received int64  `json:"received" doc:"bytes"`
	Size     int64  `json:"size" doc:"bytes"`
	Percent  int    `json:"percent" example:"40"`
	Chunk    int64  `json:"chunk" doc:"number of the current chunk, from 1"`
	Chunks   int64  `json:"chunks" doc:"number of chunks"`
}

// FileLink is a download link: POST /v1/transfers/{transfer}/link, or for a message POST
// /v1/chats/{chat}/messages/{seq}/file.
type FileLink struct {
	URL     string `json:"url" example:"/v1/files/…" doc:"a path of this server; it needs no token, and supports ranges"`
	Expires Time   `json:"expires" doc:"expiry; a running download continues"`
}
