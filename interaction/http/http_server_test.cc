#include "ding_worker/interaction/http/http_server.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/grpc/testing/tcp.h"
#include "ding_worker/interaction/grpc/testing/test_credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// All bytes until the server closes the connection.
std::string ReadAll(const Socket& socket) {
  std::string all;
  char bytes[4096];
  ssize_t size = 0;
  while ((size = read(socket.fd(), bytes, sizeof(bytes))) > 0) {
    all.append(bytes, static_cast<size_t>(size));
  }
  return all;
}

// Reads until `text` was read or the connection ends.
std::string ReadUntil(const Socket& socket, const std::string& text) {
  std::string all;
  char byte = 0;
  while (all.find(text) == std::string::npos && read(socket.fd(), &byte, 1) == 1) all += byte;
  return all;
}

std::string Request(const std::string& path, const std::string& headers = "",
                    const std::string& host = "127.0.0.1", const std::string& method = "GET") {
  return absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: ", host, "\r\n", headers,
                      "Connection: close\r\n\r\n");
}

std::string Address(const HttpServer& server) { return absl::StrCat("127.0.0.1:", server.port()); }

std::string Ask(const HttpServer& server, const std::string& request) {
  const auto socket = Socket::ConnectedTo(Address(server));
  socket->Write(request);
  return ReadAll(*socket);
}

HttpReply Echo(const HttpRequest& request) {
  if (request.path == "/missing") return HttpReply::NotFound();
  const auto x = request.query.find("x");
  return HttpReply::Text(absl::StrCat("path ", request.path, " x ",
                                      x == request.query.end() ? "" : x->second, " role ",
                                      request.role, "."));
}

std::unique_ptr<HttpServer> StartOrDie(HttpHandler handler, HttpServer::Options options = {}) {
  auto server = HttpServer::Start(options, std::move(handler));
  EXPECT_THAT(server, IsOk());
  return server.ok() ? *std::move(server) : nullptr;
}

TEST(HttpServerTest, Get_PathAndQuery_AreDecodedAndTheHeadersAreStrict) {
  const auto server = StartOrDie(Echo);
  EXPECT_EQ(server->url(), absl::StrCat("http://127.0.0.1:", server->port(), "/"));
  EXPECT_THAT(Ask(*server, Request("/a%20b?x=%3Cscript%3E")),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("path /a b x <script> role ."),
                    HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self';"),
                    HasSubstr("X-Content-Type-Options: nosniff")));
  EXPECT_THAT(Ask(*server, Request("/missing")), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Ask(*server, Request("/", "", "localhost:80")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Ask(*server, Request("/", "", "[::1]")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Ask(*server, Request("/", "", "127.0.0.1", "HEAD")), Not(HasSubstr("path")));
}

TEST(HttpServerTest, Get_TwoRequestsOfOneConnection_BothAreServed) {
  const auto server = StartOrDie(Echo);
  const auto socket = Socket::ConnectedTo(Address(*server));
  socket->Write("GET /one HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  EXPECT_THAT(ReadUntil(*socket, "role ."), HasSubstr("path /one"));
  socket->Write(Request("/two"));
  EXPECT_THAT(ReadAll(*socket), HasSubstr("path /two"));
}

TEST(HttpServerTest, Get_HostOfAnotherSite_IsRefused) {
  const auto server = StartOrDie(Echo);
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""}) {
    EXPECT_THAT(Ask(*server, Request("/", "", host)), StartsWith("HTTP/1.1 421")) << host;
  }
}

TEST(HttpServerTest, Post_IsRefused) {
  const auto server = StartOrDie(Echo);
  EXPECT_THAT(Ask(*server, Request("/", "Content-Length: 0\r\n", "127.0.0.1", "POST")),
              StartsWith("HTTP/1.1 405"));
}

TEST(HttpServerTest, Get_EndlessHeaders_EndsTheConnection) {
  const auto server = StartOrDie(Echo);
  const auto socket = Socket::ConnectedTo(Address(*server));
  socket->Write("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n");
  const std::string header = absl::StrCat("X: ", std::string(1000, 'x'), "\r\n");
  for (int i = 0; i < 100; ++i) socket->Write(header);
  EXPECT_THAT(ReadAll(*socket), Not(StartsWith("HTTP/1.1 200")));
  EXPECT_THAT(Ask(*server, Request("/")), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServerTest, Start_PortInUse_NamesTheProgram) {
  const auto server = StartOrDie(Echo);
  HttpServer::Options options;
  options.address = Address(*server);
  EXPECT_THAT(HttpServer::Start(options, Echo),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("cannot listen on 127.0.0.1:"),
                             HasSubstr(absl::StrCat("(process ", getpid(), ")")))));
}

TEST(HttpServerTest, Start_BeyondLoopback_NeedsTlsAndToken) {
  HttpServer::Options options;
  options.address = "0.0.0.0:0";
  EXPECT_THAT(HttpServer::Start(options, Echo),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--token_file")));
  options.address = "trainer.lan:80";
  EXPECT_THAT(HttpServer::Start(options, Echo),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected an IP address")));
}

TEST(HttpServerTest, Get_WithTokens_OnlyTheyAreServed) {
  const std::string tokens = JoinPath(FreshTestFolder(), "tokens");
  WritePrivateFile(tokens, TestTokens());
  HttpServer::Options options;
  options.link.token_file = tokens;
  const auto server = StartOrDie(Echo, options);
  EXPECT_THAT(Ask(*server, Request("/")),
              AllOf(StartsWith("HTTP/1.1 401"), HasSubstr("WWW-Authenticate: Basic")));
  EXPECT_THAT(Ask(*server, Request("/", "Authorization: Bearer wrong\r\n")),
              StartsWith("HTTP/1.1 401"));
  const std::string token = TestToken("operator");
  EXPECT_THAT(Ask(*server, Request("/", absl::StrCat("Authorization: Bearer ", token, "\r\n"))),
              HasSubstr("role operator."));
  const std::string basic = absl::Base64Escape(absl::StrCat("me:", token));
  EXPECT_THAT(Ask(*server, Request("/", absl::StrCat("Authorization: Basic ", basic, "\r\n"))),
              HasSubstr("role operator."));
}

// A server that takes orders. GET and POST say which of them was served.
std::unique_ptr<HttpServer> StartWithOrders(const std::string& folder) {
  const std::string tokens = JoinPath(folder, "tokens");
  WritePrivateFile(tokens, TestTokens());
  HttpServer::Options options;
  options.link.token_file = tokens;
  options.post = [](const HttpRequest& request) {
    return HttpReply::Text(absl::StrCat("ordered by ", request.role, " ", request.token, " from ",
                                        request.address, "."));
  };
  return StartOrDie(Echo, options);
}

std::string BearerOf(const std::string& token) {
  return absl::StrCat("Authorization: Bearer ", token, "\r\n");
}

std::string Post(const std::string& path, const std::string& headers) {
  return Request(path, absl::StrCat("Content-Length: 0\r\n", headers), "127.0.0.1", "POST");
}

constexpr char kOwnPage[] = "Origin: http://127.0.0.1\r\n";

TEST(HttpServerTest, Post_TokenAndOwnPage_IsServed) {
  const auto server = StartWithOrders(FreshTestFolder());
  const std::string headers = absl::StrCat(BearerOf(TestToken("operator")), kOwnPage);
  const std::string served = absl::StrCat("ordered by operator ", 3, " from 127.0.0.1.");
  EXPECT_THAT(Ask(*server, Post("/stop", headers)), HasSubstr(served));
  EXPECT_THAT(Ask(*server, Post("/stop", absl::StrCat(headers, "Sec-Fetch-Site: same-origin\r\n"))),
              HasSubstr(served));
}

TEST(HttpServerTest, Post_TokenNotInAHeader_IsRefusedAlike) {
  const auto server = StartWithOrders(FreshTestFolder());
  const std::string token = TestToken("operator");
  const std::string basic = absl::Base64Escape(absl::StrCat("me:", token));
  const std::string wrong = Ask(*server, Post("/stop", kOwnPage));
  EXPECT_THAT(wrong, AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("expected an operator's token"),
                           Not(HasSubstr("WWW-Authenticate"))));
  const auto refused = [&](const std::string& path, const std::string& header) {
    const std::string reply = Ask(*server, Post(path, absl::StrCat(header, kOwnPage)));
    EXPECT_EQ(reply.substr(reply.find("\r\n\r\n")), wrong.substr(wrong.find("\r\n\r\n")));
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 403")) << path << " " << header;
  };
  refused(absl::StrCat("/stop?token=", token), "");
  refused(absl::StrCat("/stop?Authorization=Bearer%20", token), "");
  refused("/stop", BearerOf("wrong"));
  refused("/stop", absl::StrCat("Authorization: Basic ", basic, "\r\n"));
}

TEST(HttpServerTest, Post_FromAnotherPage_IsRefused) {
  const auto server = StartWithOrders(FreshTestFolder());
  const std::string token = BearerOf(TestToken("operator"));
  for (const char* from : {"", "Origin: http://evil.example\r\n", "Origin: null\r\n",
                           "Origin: https://127.0.0.1\r\n", "Origin: http://127.0.0.1:1\r\n",
                           "Origin: http://127.0.0.1\r\nSec-Fetch-Site: cross-site\r\n",
                           "Origin: http://127.0.0.1\r\nSec-Fetch-Site: same-site\r\n"}) {
    EXPECT_THAT(Ask(*server, Post("/stop", absl::StrCat(token, from))),
                AllOf(StartsWith("HTTP/1.1 403"), Not(HasSubstr("ordered"))))
        << from;
  }
}

TEST(HttpServerTest, Get_OfAnOrder_OrdersNothing) {
  const auto server = StartWithOrders(FreshTestFolder());
  const std::string headers = absl::StrCat(BearerOf(TestToken("operator")), kOwnPage);
  for (const char* method : {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"}) {
    EXPECT_THAT(Ask(*server, Request("/stop", headers, "127.0.0.1", method)),
                Not(HasSubstr("ordered")))
        << method;
  }
}

TEST(HttpServerTest, Post_WithoutATokenFile_IsRefused) {
  HttpServer::Options options;
  options.post = [](const HttpRequest&) { return HttpReply::Text("ordered"); };
  const auto server = StartOrDie(Echo, options);
  EXPECT_THAT(Ask(*server, Post("/stop", kOwnPage)), StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Ask(*server, Post("/stop", absl::StrCat(BearerOf(""), kOwnPage))),
              StartsWith("HTTP/1.1 403"));
}

TEST(HttpServerTest, WrongTokens_TooMany_NoneIsLookedAt) {
  const auto server = StartWithOrders(FreshTestFolder());
  for (int i = 0; i < HttpServer::kMaxWrongTokens; ++i) {
    EXPECT_THAT(Ask(*server, Request("/", BearerOf(absl::StrCat("wrong", i)))),
                StartsWith("HTTP/1.1 401"));
  }
  const std::string token = BearerOf(TestToken("operator"));
  EXPECT_THAT(Ask(*server, Request("/", token)), StartsWith("HTTP/1.1 429"));
  EXPECT_THAT(Ask(*server, Post("/stop", absl::StrCat(token, kOwnPage))),
              StartsWith("HTTP/1.1 429"));
  EXPECT_THAT(Ask(*server, Request("/")), StartsWith("HTTP/1.1 401"));
}

TEST(HttpServerTest, Get_WithTls_IsEncrypted) {
  const std::string folder = FreshTestFolder();
  TestAuthority authority(folder, "ca");
  authority.Issue("server");
  HttpServer::Options options;
  options.link.tls_cert = JoinPath(folder, "server.pem");
  options.link.tls_key = JoinPath(folder, "server.key");
  const auto server = StartOrDie(Echo, options);
  EXPECT_THAT(server->url(), StartsWith("https://"));
  EXPECT_THAT(Ask(*server, Request("/")), Not(HasSubstr("HTTP/1.1")));
  // What follows the request keeps the client from closing first.
  const std::string command = absl::StrCat(
      "printf 'GET /tls HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nConnection: close\\r\\n\\r\\n' | "
      "openssl s_client -quiet -verify_return_error -CAfile ",
      authority.path(), " -connect ", Address(*server), " 2>&1");
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char bytes[512];
  size_t size = 0;
  while ((size = fread(bytes, 1, sizeof(bytes), pipe)) > 0) output.append(bytes, size);
  pclose(pipe);
  EXPECT_THAT(output, HasSubstr("path /tls"));
}

TEST(HttpServerTest, Stream_PiecesArriveOneByOne) {
  std::atomic<int> pieces{0};
  const auto server = StartOrDie([&pieces](const HttpRequest&) {
    HttpReply reply = HttpReply::Text("");
    reply.type = "text/event-stream";
    reply.next = [&pieces]() -> std::optional<std::string> {
      const int piece = ++pieces;
      if (piece % 2 == 0) return "";  // nothing yet
      if (piece > 4) return std::nullopt;
      return absl::StrCat("piece ", piece, "\n");
    };
    return reply;
  });
  const std::string reply = Ask(*server, Request("/"));
  EXPECT_THAT(reply, AllOf(HasSubstr("piece 1\n"), HasSubstr("piece 3\n")));
}

HttpReply Endless(const HttpRequest&) {
  HttpReply reply = HttpReply::Text("");
  auto begun = std::make_shared<bool>(false);
  reply.next = [begun]() -> std::optional<std::string> {
    return std::exchange(*begun, true) ? "" : "begun\n";
  };
  return reply;
}

TEST(HttpServerTest, Stop_OpenStreams_EndsThem) {
  const auto server = StartOrDie(Endless);
  std::vector<std::unique_ptr<Socket>> sockets;
  for (int i = 0; i < 6; ++i) {
    sockets.push_back(Socket::ConnectedTo(Address(*server)));
    sockets.back()->Write(Request("/"));
    EXPECT_THAT(ReadUntil(*sockets.back(), "begun\n"), HasSubstr("begun"));
  }
  server->Stop();
  for (const auto& socket : sockets) ReadAll(*socket);
  server->Stop();
}

TEST(HttpServerTest, Stream_TooMany_AreRefused) {
  HttpServer::Options options;
  options.max_connections = 8;
  const auto server = StartOrDie(
      [](const HttpRequest& request) {
        return request.path == "/stream" ? Endless(request) : Echo(request);
      },
      options);
  std::vector<std::unique_ptr<Socket>> sockets;
  for (int i = 0; i < 4; ++i) {
    sockets.push_back(Socket::ConnectedTo(Address(*server)));
    sockets.back()->Write(Request("/stream"));
    ReadUntil(*sockets.back(), "begun\n");
  }
  const auto socket = Socket::ConnectedTo(Address(*server));
  socket->Write(Request("/stream"));
  EXPECT_THAT(ReadUntil(*socket, "\n"), StartsWith("HTTP/1.1 503"));
}

}  // namespace
}  // namespace ding
