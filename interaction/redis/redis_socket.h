// The socket of a connection to Redis, in the clear or with TLS. hiredis of Debian 12 has no TLS.
//
//     RedisConnection ── Send(), Receive() ──┬── sendmsg, recvmsg ────────────► 'port' of Redis
//                                            └── SSL_write, SSL_read (OpenSSL) ► 'tls-port'
//
// Ownership: the file descriptor is the caller's, and must outlive it.
// Threads:   thread-compatible.
// Blocking:  as long as SO_RCVTIMEO and SO_SNDTIMEO of the file descriptor allow.
#ifndef DING_WORKER_INTERACTION_REDIS_REDIS_SOCKET_H_
#define DING_WORKER_INTERACTION_REDIS_REDIS_SOCKET_H_

#include <openssl/types.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace ding {

// PEM files, as of a link (interaction/grpc/link_credentials.h). They are read for each new
// connection, because certificates are renewed from time to time.
struct RedisTlsFiles {
  std::string ca;  // the authorities that sign the certificate of Redis; empty: no TLS
  // Our certificate and its key, which only its owner may read. Empty: Redis asks for none
  // ('tls-auth-clients no').
  std::string cert;
  std::string key;
};

// Checks the files: they can be read, belong together, and are valid now.
absl::Status CheckRedisTlsFiles(const RedisTlsFiles& files);

class RedisSocket {
 public:
  explicit RedisSocket(int fd) : fd_(fd) {}
  RedisSocket(const RedisSocket&) = delete;
  RedisSocket& operator=(const RedisSocket&) = delete;

  // Makes the TLS handshake. The server's certificate must be signed by an authority in `files.ca`,
  // be valid now, and have `host` among its names or addresses.
  //   kUnauthenticated   one side does not accept the other, or a file is unusable; the message
  //                      says what to do
  //   kUnavailable       the connection is closed
  //   kDeadlineExceeded  the server does not answer
  absl::Status StartTls(const RedisTlsFiles& files, const std::string& host);

  // Send or receive at least one byte, as sendmsg() and recvmsg() do. `parts` has at least one byte.
  // After an error of TLS, errno is EPROTO, and problem() says more.
  ssize_t Send(iovec* parts, int count);
  ssize_t Receive(iovec* parts, int count, int flags);

  const std::string& problem() const { return problem_; }

 private:
  struct Free {
    void operator()(SSL* tls) const;
  };

  // Does the same as send() or recv() for the result of a call of OpenSSL.
  ssize_t ResultOf(int returned);
  // Makes a system call, and keeps its error.
  template <typename Move>
  int Note(Move move);
  static int ReadForTls(BIO* bio, char* to, int size);
  static int WriteForTls(BIO* bio, const char* from, int size);

  const int fd_;
  std::unique_ptr<SSL, Free> tls_;  // null: no TLS
  int error_ = 0;                   // of the last system call for TLS; kIoEnded: it was closed
  std::string problem_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_REDIS_REDIS_SOCKET_H_
