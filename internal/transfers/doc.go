// Package transfers sends files from one user to another. The sender offers a file, the receiver accepts it, the sender
// uploads it in as many requests as necessary, and the receiver downloads it. A transfer without a receiver is an
// upload for messages. It needs no acceptance, and messages that name it have the file. See decision 24.
//
// # Truth
//
// SQL is the source of truth. The table transfers has sender, receiver, status and number of stored bytes. The table
// transfer_parts maps bytes to objects of the storage. The table transfer_quotas has each user's offers of a day. For
// uploads for messages, transfer_looks and transfer_thumbnails describe the content. The table message_files of package
// messaging has the messages of each file.
//
//   - A file is a list of parts. One request writes a part once, under a name that no other part ever has. The part
//     counts from the commit that adds its row and moves transfers.stored from its first byte to its end. A part
//     without a row does not count.
//   - That commit succeeds only if transfers.stored is still the start of the part. If two requests upload the same
//     bytes, one commit succeeds. The other is refused, and its part is deleted. So bytes that count never change, and
//     the bytes that were hashed and scanned are the bytes that downloads read.
//   - The row has the state of SHA-256 after the stored bytes, and both change together. So an upload that resumes on
//     any node reads no bytes again.
//   - A file is done when all of it is stored, it has the SHA-256 that its sender declared (if any), and the scanner
//     (if any) has passed it. It cannot be downloaded before.
//   - A complete upload for messages is inspected after the scan and before it is done. It never expires while
//     messages have it, and it is deleted with the last of them. Messages get and lose files under the lock of the
//     transfer's row, and uploads expire under it.
//   - The end of a transfer deletes the rows of its parts in the same transaction, and then the parts. A node that
//     dies in between, or while it writes a part, leaves parts without rows. The job transfers.sweep finds and deletes
//     them.
//
// # Redis
//
// The key file:transfer has the progress of each upload, including bytes between commits, for requests to other nodes.
// All of it is derived. If Redis loses it, SQL has the stored bytes.
//
// # Storage
//
// The storage is a folder, which all nodes must share, or a bucket of an S3 server: see package storage. Names of parts
// consist of the transfer's id, a number and random characters. No text from users is part of a path.
//
// # Protocol
//
// Uploads use tus 1.0 (https://tus.io) with creation, checksum, expiration and termination. Downloads use links that
// are signed with the server's secret, expire after some minutes, and support ranges.
//
// # Who may send
//
// Friends may send files, or all users if the setting says so, but never if one user blocks the other. This is checked
// at the offer, at the acceptance and at each upload request. An upload for messages is not checked, because the
// message is.
package transfers
