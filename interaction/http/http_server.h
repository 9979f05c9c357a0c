// Serves pages and metrics over HTTP, by libmicrohttpd. Only this package knows that library.
//
// Who may ask:
//   - On loopback: everybody on this machine who names a loopback host. A page of another site that
//     a browser shows cannot: its requests name that site ("DNS rebinding").
//   - With a token file: callers that send one of its tokens, as "Authorization: Bearer <token>" or
//     as the password of Basic authentication, for which browsers ask. No URL has a token.
//   - Beyond loopback TLS and a token file are needed. Callers need no certificate.
//
// Methods: GET and HEAD, which change nothing. If Options::post is set, also POST, for orders. What
//          it needs comes as a query; its body is ignored. A POST must
//   - come from a page of this server: "Origin" names the server, and "Sec-Fetch-Site", which newer
//     browsers send, is "same-origin";
//   - have a token as "Authorization: Bearer <token>". A browser sends Basic authentication by
//     itself, also for another site's form, so it does not count.
// Bounds: connections, streams, bytes of a request's head (32 KiB), and seconds of a silent
//         connection; a caller beyond them is disconnected or gets status 503. After
//         kMaxWrongTokens in a minute, no token of that address is looked at for the rest of it:
//         status 429.
//
// Ownership: owns its threads and its socket. The destructor stops it.
// Threads:   thread-safe. The server's threads call the handler, several at the same time.
//
// Example:
//   DING_ASSIGN_OR_RETURN(server_, HttpServer::Start({"127.0.0.1:8080"}, [](const HttpRequest& r) {
//                           return r.path == "/" ? HttpReply::Text("hello\n") : HttpReply::NotFound();
//                         }));
#ifndef DING_WORKER_INTERACTION_HTTP_HTTP_SERVER_H_
#define DING_WORKER_INTERACTION_HTTP_HTTP_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/grpc/link_credentials.h"

namespace ding {

struct HttpRequest {
  std::string path;  // decoded, without the query: "/metrics"
  std::map<std::string, std::string> query;
  std::string role;       // of the caller's token: "operator", ...; "" if the server has no tokens
  int token = 0;          // the number of that token in its file, from 1
  std::string address{};  // of the caller: "127.0.0.1"
};

struct HttpReply {
  static HttpReply Text(std::string body) { return {200, "text/plain; charset=utf-8", body, {}}; }
  static HttpReply NotFound() { return {404, "text/plain; charset=utf-8", "not found\n", {}}; }
  // The same for each POST whose token is missing, wrong, or of another role.
  static HttpReply WrongToken() {
    return {403, "text/plain; charset=utf-8", "expected an operator's token\n", {}};
  }

  int status = 200;
  std::string type;  // the media type: "text/html; charset=utf-8"
  std::string body;
  // If it is set, the reply is a stream instead of `body`. Returns the next piece; "": nothing yet,
  // the server asks again after HttpServer::kStreamPeriod; nullopt: the end. It must not wait.
  std::function<std::optional<std::string>()> next;
};

// A handler must return soon: other callers wait for the same thread. It must not throw.
using HttpHandler = std::function<HttpReply(const HttpRequest&)>;

class HttpServer {
 public:
  struct Options {
    std::string address = "127.0.0.1:0";  // port 0: any free one
    GrpcTransportOptions link = {};       // tls_cert, tls_key and token_file, if any
    int max_connections = 64;             // half of them may be streams
    HttpHandler post = nullptr;           // for POST; null: refused with status 405
  };

  static constexpr int kThreads = 5;
  static constexpr int kMaxWrongTokens = 10;
  static constexpr absl::Duration kStreamPeriod = absl::Milliseconds(250);
  // A connection without a byte for so long is closed.
  static constexpr absl::Duration kSilence = absl::Seconds(20);

  // Listens and serves until Stop().
  //   kAlreadyExists       another program listens on the port; the message names it if it can
  //   kFailedPrecondition  the address is beyond loopback, and TLS or the token file is missing
  //   kInvalidArgument     the address or the options make no sense
  //   kResourceExhausted   the system refuses a thread
  //   ...                  the files of `link` cannot be read (link_credentials.h)
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const Options& options,
                                                           HttpHandler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  // "http://127.0.0.1:8080/"
  const std::string& url() const { return url_; }
  int port() const { return port_; }
  // Closes all connections, and returns when no handler is called any more. May be called again.
  void Stop();

 private:
  class Impl;

  HttpServer(std::unique_ptr<Impl> impl, std::string url, int port);

  const std::unique_ptr<Impl> impl_;
  const std::string url_;
  const int port_;
};

// The program that listens on a TCP port of this machine, as "serial (process 4711)"; "" if it
// belongs to another user or there is none.
std::string ListenerOf(int port);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_HTTP_HTTP_SERVER_H_
