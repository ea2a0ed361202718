// Package transfers carries files between two users: one offers a file, the other accepts
// it, the sender uploads it in as many tries as it takes, and the receiver downloads it. A transfer without
// a receiver is an upload for messages: nobody accepts it, and messages that name it have the file. See
// decision 24.
//
// # Truth
//
// SQL: transfers (who offers what to whom, its status, and how many bytes are stored),
// transfer_parts (which object of the storage holds which bytes) and transfer_quotas (what
// each user has offered on a day); of uploads for messages transfer_looks and transfer_thumbnails (what the bytes
// show). Which messages have a file, package messaging knows: message_files.
//
//   - A file is a list of parts. A part is written once, by one request, under a name that
//     no other part ever had; it counts from the commit that adds its row and moves
//     transfers.stored from its first byte to its end. A part without a row is nothing.
//   - That commit holds only if stored is still where the part begins. Of two requests that
//     upload the same bytes one moves it, and the other is refused; what it has written is removed.
//     Nobody can change bytes that count, and bytes that were hashed and scanned are those that are read.
//   - The state of SHA-256 after the stored bytes is in the row and moves with them, so that an upload
//     that goes on, on whatever node, reads nothing again.
//   - A file is done when all of it is stored, it has the SHA-256 that its sender has declared, if any,
//     and the scanner, if there is one, has passed it. Until then nobody can fetch it.
//   - An upload for messages is looked at once it is whole, after the scanner and before it is done. One that messages
//     have never expires, and goes with the last of them: taking, expiring and giving up happen under the lock of its row.
//   - What ends a transfer removes its parts' rows in the same transaction, then the parts. A node that
//     dies in between, or while it writes a part, leaves parts without rows: the job
//     transfers.sweep finds and removes them.
//
// # Redis
//
// file:transfer has how far each upload has come, between commits too, for whoever asks on another
// node. All of it is derived: where it is lost, SQL says what is stored.
//
// # Storage
//
// A folder, which the nodes must share where there are several, or a bucket of an S3 server: see
// package storage. Names of parts are made of the transfer's id, a number and chance: nothing of what
// users write is part of a path.
//
// # Protocol
//
// Uploads are tus 1.0 (https://tus.io) with creation, checksum, expiration and termination. Downloads
// are links signed with the server's secret, good for some minutes, with ranges.
//
// # Who may send
//
// Friends, unless the setting says everybody, and never over a block. It is asked at the offer, at
// the acceptance and at each request that uploads. An upload for messages asks nobody: the message does.
package transfers
