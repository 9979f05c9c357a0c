#include "ding_worker/interaction/grpc/grpc_transport.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/grpc/begun_calls.h"
#include "ding_worker/interaction/grpc/connection_gate.h"
#include "ding_worker/interaction/grpc/frames_connection.h"
#include "ding_worker/interaction/grpc/grpc_log.h"
#include "ding_worker/interaction/grpc/link.grpc.pb.h"
#include "ding_worker/interaction/grpc/link.pb.h"
#include "ding_worker/interaction/grpc/link_address.h"
#include "ding_worker/interaction/grpc/link_files.h"
#include "ding_worker/interaction/grpc/taken_connections.h"
#include "ding_worker/interaction/transport/transport.h"
#include "grpcpp/grpcpp.h"

namespace ding {
namespace {

using link::Frames;
using link::Link;

constexpr size_t kMaxWaitingPeers = 128;
// The bytes that gRPC may receive ahead of the reader: enough for loopback, and bounded, unlike
// gRPC's own estimate.
constexpr int kWindowBytes = 512 << 10;
// How long a connection attempt waits for a server that says nothing.
constexpr absl::Duration kAttempt = absl::Seconds(2);
// The open calls of one connection: it needs one, and one of an earlier attempt may still be open.
constexpr int kMaxStreams = 8;
// Far more than the size of a token and of what gRPC adds.
constexpr int kMaxMetadataBytes = 8 << 10;
// A peer that sends keepalive pings too often is disconnected after so many.
constexpr int kMaxEarlyPings = 8;
// gRPC aborts the process if it has fewer descriptors.
constexpr int64_t kLeastDescriptors = 64;
// The pause between connection attempts.
constexpr absl::Duration kPause = absl::Milliseconds(100);

int Millis(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

// ---- credentials

// The key of the call's metadata that carries the token.
constexpr char kTokenKey[] = "ding-token";

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const LinkCredentials& credentials) {
  if (!credentials.tls) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      credentials.ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                             : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = credentials.ca;
  options.pem_key_cert_pairs = {{credentials.key, credentials.cert}};
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(const LinkCredentials& credentials) {
  if (!credentials.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = credentials.ca;
  options.pem_cert_chain = credentials.cert;
  options.pem_private_key = credentials.key;
  return grpc::SslCredentials(options);
}

// ---- the server's side

class Server;

class ServerConnection final : public FramesConnection,
                               private grpc::ServerBidiReactor<Frames, Frames> {
 public:
  ServerConnection(grpc::CallbackServerContext* context, absl::string_view identity)
      : FramesConnection(PeerOfUri(context->peer()), /*waits=*/true),
        identity_(identity),
        context_(context) {}

  grpc::ServerBidiReactor<Frames, Frames>* Start() {
    StartSendInitialMetadata();
    Advance();
    return this;
  }
  absl::string_view identity() const override { return identity_; }
  // Whether the peer has gone before it was accepted, without leaving a message to receive.
  bool given_up() const { return cancelled_ && exhausted(); }
  // From now on the connection keeps its server alive.
  void Keep(std::shared_ptr<Server> server) {
    server_ = std::move(server);
    NotifyAccepted();
  }

 private:
  using Reactor = grpc::ServerBidiReactor<Frames, Frames>;

  void StartRead(Frames* frames) override { Reactor::StartRead(frames); }
  void StartWrite(const Frames* frames) override { Reactor::StartWrite(frames); }
  void StartGoodbye() override { Reactor::StartWrite(&goodbye_); }
  void Release() override { Finish(grpc::Status::OK); }
  void Cancel() override { context_->TryCancel(); }

  void OnReadDone(bool ok) override { ReadDone(ok); }
  void OnWriteDone(bool ok) override { WriteDone(ok); }
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { Released(""); }

  const std::string identity_;
  std::atomic<bool> cancelled_{false};
  std::shared_ptr<Server> server_;
  grpc::CallbackServerContext* const context_;  // valid until OnDone()
  const Frames goodbye_;
};

// Owned by the listener and by each accepted connection.
class Server final : public Link::CallbackService, public std::enable_shared_from_this<Server> {
 public:
  static absl::StatusOr<std::shared_ptr<Server>> Start(LinkAddress endpoint,
                                                       LinkCredentials credentials) {
    if (DescriptorLimit() < kLeastDescriptors) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "cannot listen on ", endpoint.ToString(), ": the limit of open files is ",
          DescriptorLimit(), ", expected at least ", kLeastDescriptors, " (ulimit -n)"));
    }
    auto server = std::make_shared<Server>(std::move(credentials.tokens));
    DING_ASSIGN_OR_RETURN(
        server->gate_,
        ConnectionGate::Listen(endpoint, ConnectionBounds::Within(DescriptorLimit())));
    endpoint.port = server->gate_->port();
    server->endpoint_ = endpoint;
    grpc::ServerBuilder builder;
    builder.RegisterService(server.get());
    builder.RegisterCallbackGenericService(&server->unknown_methods_);
    server->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        ServerCredentials(credentials));
    builder.SetMaxReceiveMessageSize(kMaxFramesBytes);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(GrpcTransport::kKeepAlive));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(GrpcTransport::kKeepAlive));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kMaxEarlyPings);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               Millis(GrpcTransport::kKeepAlive / 4));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
    // Closes connections of peers that have ended their call but do not disconnect.
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Millis(GrpcTransport::kKeepAlive));
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Millis(kAttempt));
    BegunStreamsReader begun_streams = server->Build(&builder);
    if (server->server_ == nullptr) {
      return absl::InternalError(
          absl::StrCat("gRPC cannot make a server for ", endpoint.ToString()));
    }
    ConnectionGate::Backend backend;
    backend.take = [acceptor = server->acceptor_.get()](int fd) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
      parameters.fd = fd;
      acceptor->HandleNewConnection(&parameters);
    };
    backend.begun_streams = [begun_streams]() mutable { return begun_streams.Read(); };
    backend.report = ReportRefusal;
    DING_RETURN_IF_ERROR(server->gate_->Start(std::move(backend)));
    return server;
  }

  explicit Server(std::vector<LinkToken> tokens) : tokens_(std::move(tokens)) {}
  ~Server() override {
    if (server_ == nullptr) return;
    StopListening();
    // Without a deadline, peers that were not accepted could delay the shutdown for as long as they
    // like.
    server_->Shutdown(std::chrono::system_clock::now());
  }

  std::string address() const { return endpoint_.ToString(); }

  absl::StatusOr<std::unique_ptr<Connection>> Accept(absl::Duration timeout) {
    const Deadline deadline = Deadline::After(timeout);
    while (true) {
      OwnedFrames<ServerConnection> connection;
      {
        MutexLock lock(&mutex_);
        while (waiting_.empty() && !closed_ && !deadline.Passed()) {
          changed_.WaitUntil(&mutex_, deadline);
        }
        if (closed_) {
          return absl::CancelledError(absl::StrCat("the listener on ", address(), " was closed"));
        }
        if (waiting_.empty()) {
          return absl::DeadlineExceededError(absl::StrCat("no peer connected to ", address(),
                                                          " for ", absl::FormatDuration(timeout)));
        }
        connection = std::move(waiting_.front());
        waiting_.pop_front();
      }
      if (connection->given_up()) continue;
      connection->Keep(shared_from_this());
      return std::make_unique<GrpcConnection>(std::move(connection));
    }
  }

  void SetReadyCallback(std::function<void()> ready) {
    MutexLock lock(&mutex_);
    if (!closed_) ready_ = std::move(ready);
  }

  // Returns when another listener can use the address.
  void StopListening() {
    std::deque<OwnedFrames<ServerConnection>> waiting;
    {
      MutexLock lock(&mutex_);
      if (closed_) return;
      closed_ = true;
      ready_ = nullptr;
      waiting.swap(waiting_);
      changed_.SignalAll();
    }
    for (const auto& connection : waiting) connection->CloseWithin(absl::ZeroDuration());
    gate_->StopListening();
  }

  grpc::ServerBidiReactor<Frames, Frames>* Open(grpc::CallbackServerContext* context) override {
    const std::string peer = PeerOfUri(context->peer());
    if (!gate_->CountCall(peer)) {
      return new Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many calls");
    }
    const absl::StatusOr<absl::string_view> identity = Identify(*context);
    if (!identity.ok()) {
      return new Refusal(grpc::StatusCode::UNAUTHENTICATED,
                         std::string(identity.status().message()));
    }
    MutexLock lock(&mutex_);
    if (closed_) {
      return new Refusal(grpc::StatusCode::UNAVAILABLE, "the listener was closed");
    }
    if (waiting_.size() >= kMaxWaitingPeers) {
      return new Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many peers are waiting");
    }
    if (const absl::Status room = gate_->LetIn(peer, !identity->empty()); !room.ok()) {
      return new Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED, std::string(room.message()));
    }
    waiting_.push_back(OwnedFrames<ServerConnection>(new ServerConnection(context, *identity)));
    changed_.SignalAll();
    if (ready_ != nullptr) CallUserWhoMustNotThrow("the ready callback of a listener", ready_);
    return waiting_.back()->Start();
  }

 private:
  // Returns the role of the token that the peer shows, or "" if the listener asks for none.
  absl::StatusOr<absl::string_view> Identify(const grpc::CallbackServerContext& context) const {
    if (tokens_.empty()) return absl::string_view();
    const auto shown = context.client_metadata().find(kTokenKey);
    if (shown == context.client_metadata().end()) {
      return absl::UnauthenticatedError("it asks for a token, and none was shown");
    }
    const absl::string_view role =
        RoleOfToken(tokens_, absl::string_view(shown->second.data(), shown->second.size()));
    if (role.empty()) return absl::UnauthenticatedError("it does not know the token");
    return role;
  }

  // Starts the server, and returns the reader of its channelz statistics.
  BegunStreamsReader Build(grpc::ServerBuilder* builder) {
    static Mutex* const building = new Mutex;  // so that no other server is newer
    MutexLock lock(building);
    server_ = builder->BuildAndStart();
    return BegunStreamsReader::OfNewestServer();
  }

  const std::vector<LinkToken> tokens_;
  LinkAddress endpoint_;
  UnknownMethods unknown_methods_{[this](const std::string& peer) { gate_->CountCall(peer); }};
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ConnectionGate> gate_;  // ends before the members that it uses

  Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> ready_ ABSL_GUARDED_BY(mutex_);
  std::deque<OwnedFrames<ServerConnection>> waiting_ ABSL_GUARDED_BY(mutex_);
};

class GrpcListener final : public Listener {
 public:
  explicit GrpcListener(std::shared_ptr<Server> server)
      : server_(std::move(server)), address_(server_->address()) {}
  ~GrpcListener() override { Close(); }

  absl::StatusOr<std::unique_ptr<Connection>> Accept(absl::Duration timeout) override {
    return server_->Accept(timeout);
  }
  void SetReadyCallback(std::function<void()> ready) override {
    server_->SetReadyCallback(std::move(ready));
  }
  const std::string& address() const override { return address_; }
  void Close() override { server_->StopListening(); }

 private:
  const std::shared_ptr<Server> server_;
  const std::string address_;
};

// ---- the client's side

class ClientConnection final : public FramesConnection,
                               private grpc::ClientBidiReactor<Frames, Frames> {
 public:
  // The call fails at once, with the reason, where nobody listens: if gRPC waited for the server
  // itself, the reason would be lost.
  ClientConnection(const std::shared_ptr<grpc::Channel>& channel,
                   const std::vector<LinkToken>& tokens, std::string peer)
      : FramesConnection(std::move(peer), /*waits=*/false), stub_(Link::NewStub(channel)) {
    for (const LinkToken& token : tokens) context_.AddMetadata(kTokenKey, token.token);
    stub_->async()->Open(&context_, this);
    AddHold();
    StartCall();
    Advance();
  }

  // Why the connection could not be opened. Valid once WaitUntilOpen() has returned kUnavailable.
  const grpc::Status& end() const { return end_; }

 private:
  using Reactor = grpc::ClientBidiReactor<Frames, Frames>;

  void StartRead(Frames* frames) override { Reactor::StartRead(frames); }
  void StartWrite(const Frames* frames) override { Reactor::StartWrite(frames); }
  void StartGoodbye() override { StartWritesDone(); }
  void Release() override { RemoveHold(); }
  void Cancel() override { context_.TryCancel(); }

  void OnReadInitialMetadataDone(bool ok) override {
    if (ok) Opened();
  }
  void OnReadDone(bool ok) override { ReadDone(ok); }
  void OnWriteDone(bool ok) override { WriteDone(ok); }
  void OnWritesDoneDone(bool ok) override { WriteDone(ok); }
  void OnDone(const grpc::Status& status) override {
    end_ = status;
    Released(status.error_message());
  }

  grpc::Status end_;  // written before Released()
  const std::unique_ptr<Link::Stub> stub_;
  grpc::ClientContext context_;
};

grpc::ChannelArguments ClientArguments(const LinkAddress& endpoint) {
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, endpoint.authority);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, Millis(kAttempt));
  arguments.SetMaxReceiveMessageSize(kMaxFramesBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(GrpcTransport::kKeepAlive));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(GrpcTransport::kKeepAlive));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Millis(kPause));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Millis(kPause));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Millis(kAttempt));
  // A retry by gRPC could send a message twice.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Each connection uses a TCP connection of its own, and no proxy.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> GrpcTransport::Listen(const std::string& address) {
  DING_ASSIGN_OR_RETURN(const LinkAddress endpoint, ParseLinkAddress(address));
  if (endpoint.kind == LinkAddress::Kind::kName) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot listen on '", address,
        "', a name; expected a number: 0.0.0.0 or [::] for all addresses of the machine"));
  }
  DING_ASSIGN_OR_RETURN(LinkCredentials credentials,
                        LoadListenerCredentials(options_, endpoint, Clock::Real()->Now()));
  DING_ASSIGN_OR_RETURN(std::shared_ptr<Server> server,
                        Server::Start(endpoint, std::move(credentials)));
  return std::make_unique<GrpcListener>(std::move(server));
}

std::shared_ptr<grpc::Channel> GrpcTransport::TakeUnfinished(
    const std::string& target_and_credentials) {
  MutexLock lock(&mutex_);
  std::shared_ptr<grpc::Channel> taken;
  const auto ended = [&](Unfinished& each) {
    if (taken == nullptr && each.target_and_credentials == target_and_credentials) {
      taken = std::move(each.channel);
      return true;
    }
    return each.channel->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_CONNECTING;
  };
  unfinished_.erase(std::remove_if(unfinished_.begin(), unfinished_.end(), ended),
                    unfinished_.end());
  return taken;
}

absl::StatusOr<std::unique_ptr<Connection>> GrpcTransport::Connect(const std::string& address,
                                                                   absl::Duration timeout) {
  const Deadline deadline = Deadline::After(timeout);
  DING_ASSIGN_OR_RETURN(const LinkAddress endpoint, ParseLinkAddress(address));
  if (endpoint.port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "': port 0 is not an address to connect to"));
  }
  DING_ASSIGN_OR_RETURN(const LinkCredentials credentials,
                        LoadCallerCredentials(options_, endpoint, Clock::Real()->Now()));
  const std::string target_and_credentials =
      absl::StrCat(endpoint.target(), "\n", credentials.ca, credentials.cert, credentials.key);
  std::shared_ptr<grpc::Channel> channel = TakeUnfinished(target_and_credentials);
  if (channel == nullptr) {
    channel = grpc::CreateCustomChannel(endpoint.target(), ChannelCredentials(credentials),
                                        ClientArguments(endpoint));
  }
  std::string refusal;
  while (true) {
    OwnedFrames<ClientConnection> connection(
        new ClientConnection(channel, credentials.tokens, endpoint.ToString()));
    const absl::Status status = connection->WaitUntilOpen(deadline.Left());
    if (status.ok()) return std::make_unique<GrpcConnection>(std::move(connection));
    if (absl::IsUnavailable(status)) {
      ConnectFailure failure = ExplainFailure(
          connection->end().error_message(),
          connection->end().error_code() == grpc::StatusCode::UNAUTHENTICATED, credentials);
      if (failure.final) {
        return absl::UnauthenticatedError(
            absl::StrCat("no connection to ", address, ": ", failure.why));
      }
      // An attempt that gRPC gives up is no answer of the listener, which may be stopped.
      if (!absl::StrContains(failure.why, "timed out")) refusal = absl::StrCat(": ", failure.why);
    }
    connection->CloseWithin(absl::ZeroDuration());
    const absl::Duration left = deadline.Left();
    if (left <= absl::ZeroDuration()) {
      // An attempt that gRPC has given up is followed by another one, in the state
      // TRANSIENT_FAILURE. In any other state a call may have reached the listener, which takes one
      // from each connection.
      const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/false);
      if (state == GRPC_CHANNEL_CONNECTING ||
          (state == GRPC_CHANNEL_TRANSIENT_FAILURE && refusal.empty())) {
        MutexLock lock(&mutex_);
        unfinished_.push_back({target_and_credentials, std::move(channel)});
      }
      const absl::Status late = absl::DeadlineExceededError(absl::StrCat(
          "no connection to ", address, " within ", absl::FormatDuration(timeout), refusal));
      return refusal.empty() ? late : MarkConnectRefused(late);
    }
    absl::SleepFor(std::min(left, kPause));
  }
}

}  // namespace ding
