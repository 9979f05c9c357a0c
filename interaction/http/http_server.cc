#include "ding_worker/interaction/http/http_server.h"

#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/interaction/grpc/link_address.h"

namespace ding {
namespace {

constexpr int kPollingThreads = HttpServer::kThreads - 1;
constexpr size_t kMaxHeadBytes = 32 << 10;
constexpr size_t kStreamBlock = 16 << 10;
// What the kernel receives ahead of a connection.
constexpr int kReceiveBytes = 16 << 10;
constexpr absl::Duration kWrongTokenPeriod = absl::Minutes(1);
// Addresses beyond these share a bound.
constexpr size_t kMaxAddresses = 1000;

// Scripts, styles and pictures come from this server only, and no other page may embed ours.
constexpr const char* kHeaders[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
     "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
     "frame-ancestors 'none'"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Cache-Control", "no-store"},
};

// Whether a request's header Host names loopback, with or without a port.
bool NamesLoopback(absl::string_view host) {
  const bool with_port = host.rfind(':') != absl::string_view::npos && !absl::EndsWith(host, "]");
  const auto address = ParseLinkAddress(with_port ? std::string(host) : absl::StrCat(host, ":80"));
  return address.ok() && address->loopback();
}

std::string HeaderOf(MHD_Connection* connection, const char* name) {
  const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? "" : value;
}

// The token that a caller shows; "" if there is none.
std::string TokenOf(MHD_Connection* connection, bool basic) {
  const std::string header = HeaderOf(connection, "Authorization");
  absl::string_view token = header;
  if (absl::ConsumePrefix(&token, "Bearer ")) return std::string(token);
  if (!basic) return "";
  char* password = nullptr;
  char* user = MHD_basic_auth_get_username_password(connection, &password);
  const std::string shown = user == nullptr || password == nullptr ? "" : password;
  if (user != nullptr) MHD_free(user);
  if (password != nullptr) MHD_free(password);
  return shown;
}

// "127.0.0.1", without the port; "" if it is not known.
std::string AddressOf(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (info == nullptr || info->client_addr == nullptr) return "";
  const socklen_t size =
      info->client_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  char host[NI_MAXHOST] = "";
  const int failed =
      getnameinfo(info->client_addr, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? host : "";
}

MHD_Result AddToQuery(void* query, MHD_ValueKind, const char* key, const char* value) {
  (*static_cast<std::map<std::string, std::string>*>(query))[key] = value == nullptr ? "" : value;
  return MHD_YES;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpHandler handler, HttpHandler post, LinkCredentials credentials, int max_streams)
      : handler_(std::move(handler)),
        post_(std::move(post)),
        credentials_(std::move(credentials)),
        max_streams_(max_streams) {}

  absl::Status Start(int fd, int max_connections) {
    DING_RETURN_IF_ERROR(CheckThreads(kThreads));
    std::vector<MHD_OptionItem> options = {
        {MHD_OPTION_LISTEN_SOCKET, fd, nullptr},
        {MHD_OPTION_THREAD_POOL_SIZE, kPollingThreads, nullptr},
        {MHD_OPTION_CONNECTION_LIMIT, std::max(max_connections, kPollingThreads), nullptr},
        {MHD_OPTION_CONNECTION_TIMEOUT, absl::ToInt64Seconds(kSilence), nullptr},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, static_cast<intptr_t>(kMaxHeadBytes), nullptr},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, nullptr},
    };
    unsigned flags = MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    if (credentials_.tls) {
      flags |= MHD_USE_TLS;
      options.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, &credentials_.key[0]});
      options.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, &credentials_.cert[0]});
    }
    options.push_back({MHD_OPTION_END, 0, nullptr});
    daemon_ = MHD_start_daemon(flags, 0, nullptr, nullptr, &Impl::Handle, this, MHD_OPTION_ARRAY,
                               options.data(), MHD_OPTION_END);
    if (daemon_ == nullptr) {
      return absl::UnavailableError(
          "the HTTP server does not start; expected a valid certificate "
          "and key, and enough memory");
    }
    auto ticker = StartThread("the streams of the HTTP server", [this] { Tick(); });
    if (!ticker.ok()) {
      MHD_stop_daemon(daemon_);
      return ticker.status();
    }
    ticker_ = *std::move(ticker);
    return absl::OkStatus();
  }

  void Stop() ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
      stopping_ = true;
      changed_.SignalAll();
    }
    ticker_.join();
    MHD_stop_daemon(daemon_);
  }

 private:
  // A reply that is a stream. The library owns it, and calls Read() and Free().
  struct Stream {
    Impl* impl;
    MHD_Connection* connection;
    std::function<std::optional<std::string>()> next;
    std::string piece;
    size_t sent = 0;  // bytes of `piece`
  };

  static MHD_Result Handle(void* self, MHD_Connection* connection, const char* path,
                           const char* method, const char* /*version*/, const char* /*upload*/,
                           size_t* upload_bytes, void** state) {
    auto* impl = static_cast<Impl*>(self);
    const bool get = absl::string_view(method) == "GET" || absl::string_view(method) == "HEAD";
    const bool post = absl::string_view(method) == "POST" && impl->post_ != nullptr;
    if (!get && !post) return Send(connection, {405, "text/plain", "only GET is served\n", {}});
    // The first call comes before the end of the request. A reply to it would end the connection.
    static const char seen = 0;
    if (*state != &seen) {
      *state = const_cast<char*>(&seen);
      return MHD_YES;
    }
    if (*upload_bytes > 0) {  // the body of the request, which means nothing
      *upload_bytes = 0;
      return MHD_YES;
    }
    return impl->Answer(connection, path, post);
  }

  // Whether a page of this server makes the request.
  bool IsFromOwnPage(MHD_Connection* connection) const {
    const std::string site = HeaderOf(connection, "Sec-Fetch-Site");
    return (site.empty() || site == "same-origin") &&
           HeaderOf(connection, MHD_HTTP_HEADER_ORIGIN) ==
               absl::StrCat(credentials_.tls ? "https://" : "http://",
                            HeaderOf(connection, MHD_HTTP_HEADER_HOST));
  }

  // Looks up the caller's token in the file. Returns what to answer if it is not there.
  std::optional<HttpReply> CheckToken(const std::string& token, bool post, HttpRequest* request)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    for (auto it = wrong_tokens_.begin(); it != wrong_tokens_.end();) {
      it = it->second.since.Elapsed() >= kWrongTokenPeriod ? wrong_tokens_.erase(it) : ++it;
    }
    const bool known = wrong_tokens_.count(request->address) > 0;
    const bool room = known || wrong_tokens_.size() < kMaxAddresses;
    int& wrong = wrong_tokens_[room ? request->address : ""].count;
    if (!token.empty() && wrong >= kMaxWrongTokens) {
      return HttpReply{429, "text/plain", "too many wrong tokens; wait a minute\n", {}};
    }
    const int index = IndexOfToken(credentials_.tokens, token);
    if (index >= 0) {
      request->role = credentials_.tokens[static_cast<size_t>(index)].role;
      request->token = index + 1;
      return std::nullopt;
    }
    if (!token.empty()) ++wrong;
    if (post) return HttpReply::WrongToken();
    return HttpReply{401, "text/plain", "expected a token as the password\n", {}};
  }

  MHD_Result Answer(MHD_Connection* connection, const char* path, bool post)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    HttpRequest request;
    request.path = path;
    request.address = AddressOf(connection);
    if (post && !IsFromOwnPage(connection)) {
      return Send(connection, {403, "text/plain", "expected a request of this page\n", {}});
    }
    if (!post && credentials_.tokens.empty()) {
      if (!NamesLoopback(HeaderOf(connection, MHD_HTTP_HEADER_HOST))) {
        return Send(connection, {421, "text/plain", "expected a loopback host in the URL\n", {}});
      }
    } else {
      const std::string token = TokenOf(connection, /*basic=*/!post);
      const std::optional<HttpReply> refusal = CheckToken(token, post, &request);
      if (refusal.has_value()) return Send(connection, *refusal);
    }
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &AddToQuery, &request.query);
    HttpReply reply = post ? post_(request) : handler_(request);
    if (reply.next == nullptr) return Send(connection, reply);
    {
      MutexLock lock(&mutex_);
      if (streams_ >= max_streams_) {
        return Send(connection, {503, "text/plain", "too many streams; close another page\n", {}});
      }
      ++streams_;
    }
    auto* stream = new Stream{this, connection, std::move(reply.next), "", 0};
    MHD_Response* response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kStreamBlock,
                                                               &Impl::Read, stream, &Impl::Free);
    if (response == nullptr) {
      Free(stream);
      return MHD_NO;
    }
    return Queue(connection, response, reply.status, reply.type);
  }

  static MHD_Result Send(MHD_Connection* connection, const HttpReply& reply) {
    MHD_Response* response = MHD_create_response_from_buffer(
        reply.body.size(), const_cast<char*>(reply.body.data()), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) return MHD_NO;
    return Queue(connection, response, reply.status, reply.type);
  }

  static MHD_Result Queue(MHD_Connection* connection, MHD_Response* response, int status,
                          const std::string& type) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type.c_str());
    for (const auto& [name, value] : kHeaders) MHD_add_response_header(response, name, value);
    if (status == 401) {
      MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                              "Basic realm=\"ding_worker\"");
    }
    if (status == 405) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    const MHD_Result queued =
        MHD_queue_response(connection, static_cast<unsigned>(status), response);
    MHD_destroy_response(response);
    return queued;
  }

  static ssize_t Read(void* self, uint64_t /*position*/, char* buffer, size_t size)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    auto* stream = static_cast<Stream*>(self);
    if (stream->sent == stream->piece.size()) {
      std::optional<std::string> piece = stream->next();
      if (!piece.has_value()) return MHD_CONTENT_READER_END_OF_STREAM;
      stream->piece = *std::move(piece);
      stream->sent = 0;
    }
    if (stream->piece.empty()) return stream->impl->Suspend(stream->connection);
    const size_t count = std::min(size, stream->piece.size() - stream->sent);
    stream->piece.copy(buffer, count, stream->sent);
    stream->sent += count;
    return static_cast<ssize_t>(count);
  }

  // Makes the library leave a stream alone until the next tick.
  ssize_t Suspend(MHD_Connection* connection) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (stopping_) return MHD_CONTENT_READER_END_OF_STREAM;
    MHD_suspend_connection(connection);
    suspended_.push_back(connection);
    changed_.SignalAll();
    return 0;
  }

  static void Free(void* self) {
    auto* stream = static_cast<Stream*>(self);
    Impl* impl = stream->impl;
    delete stream;
    MutexLock lock(&impl->mutex_);
    --impl->streams_;
  }

  // Resumes the suspended streams, every kStreamPeriod and at the end. Sleeps if there are none.
  void Tick() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (!stopping_) {
      while (!stopping_ && suspended_.empty()) changed_.WaitUntil(&mutex_, Deadline::Never());
      const Deadline tick = Deadline::After(kStreamPeriod);
      while (!stopping_ && !tick.Passed()) changed_.WaitUntil(&mutex_, tick);
      for (MHD_Connection* connection : suspended_) MHD_resume_connection(connection);
      suspended_.clear();
    }
  }

  // The tokens of an address that were wrong in the last minute.
  struct WrongTokens {
    Timer since{Clock::Real()};
    int count = 0;
  };

  const HttpHandler handler_;
  const HttpHandler post_;
  LinkCredentials credentials_;
  const int max_streams_;
  MHD_Daemon* daemon_ = nullptr;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, WrongTokens> wrong_tokens_ ABSL_GUARDED_BY(mutex_);
  std::vector<MHD_Connection*> suspended_ ABSL_GUARDED_BY(mutex_);
  std::thread ticker_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl, std::string url, int port)
    : impl_(std::move(impl)), url_(std::move(url)), port_(port) {}
HttpServer::~HttpServer() { Stop(); }
void HttpServer::Stop() { impl_->Stop(); }

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const Options& options,
                                                              HttpHandler handler) {
  DING_ASSIGN_OR_RETURN(LinkAddress address, ParseLinkAddress(options.address));
  if (address.kind == LinkAddress::Kind::kName) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on '", options.address,
                     "': expected an IP address instead of a name, such as 127.0.0.1:8080"));
  }
  GrpcTransportOptions link = options.link;
  link.tls_client_certs = false;
  DING_ASSIGN_OR_RETURN(LinkCredentials credentials,
                        LoadListenerCredentials(link, address, Clock::Real()->Now()));
  const bool tls = credentials.tls;
  absl::StatusOr<int> fd = ListenOn(address, kReceiveBytes);
  if (!fd.ok()) {
    const std::string listener = ListenerOf(address.port);
    if (!absl::IsAlreadyExists(fd.status()) || listener.empty()) return fd.status();
    return absl::AlreadyExistsError(absl::StrCat(fd.status().message(), ", by ", listener,
                                                 "; choose another port, or end that program"));
  }
  auto impl = std::make_unique<Impl>(std::move(handler), options.post, std::move(credentials),
                                     std::max(1, options.max_connections / 2));
  address.port = PortOf(*fd);
  DING_RETURN_IF_ERROR(impl->Start(*fd, options.max_connections));
  std::string url = absl::StrCat(tls ? "https://" : "http://", address.ToString(), "/");
  return absl::WrapUnique(new HttpServer(std::move(impl), std::move(url), address.port));
}

std::string ListenerOf(int port) {
  // The sockets that listen on it, as links of descriptors name them.
  std::vector<std::string> sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto text = ReadFile(table);
    if (!text.ok()) continue;
    for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
      const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      constexpr size_t kLocal = 1, kState = 3, kInode = 9;
      if (words.size() <= kInode || words[kState] != "0A") continue;
      if (absl::EndsWith(words[kLocal], absl::StrFormat(":%04X", port))) {
        sockets.push_back(absl::StrCat("socket:[", words[kInode], "]"));
      }
    }
  }
  const auto processes = ListDirectory("/proc");
  if (sockets.empty() || !processes.ok()) return "";
  for (const std::string& process : *processes) {
    int number = 0;
    if (!absl::SimpleAtoi(process, &number)) continue;
    const std::string folder = JoinPath("/proc", process);
    const auto descriptors = ListDirectory(JoinPath(folder, "fd"));
    if (!descriptors.ok()) continue;
    for (const std::string& descriptor : *descriptors) {
      char target[64] = "";
      const ssize_t size = readlink(JoinPath(folder, "fd/" + descriptor).c_str(), target, 63);
      if (size < 0 || std::count(sockets.begin(), sockets.end(), target) == 0) continue;
      // Its file, since the name of a process that was started by /proc/self/exe is "exe".
      char file[4096] = "";
      const ssize_t length = readlink(JoinPath(folder, "exe").c_str(), file, sizeof(file));
      const absl::string_view path(file, length < 0 ? 0 : static_cast<size_t>(length));
      return absl::StrCat(length <= 0 ? "a program" : path.substr(path.rfind('/') + 1),
                          " (process ", process, ")");
    }
  }
  return "";
}

}  // namespace ding
