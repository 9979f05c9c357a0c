#include "ding_worker/interaction/redis/testing/redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/redis/redis_connection.h"

namespace ding {
namespace {

constexpr char kProgram[] = "redis-server";
constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr absl::Duration kPause = absl::Milliseconds(5);
// How many ports are tried: another process may take a port before Redis does.
constexpr int kPorts = 5;

// Returns a port on which nobody listens now.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool found = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  return found ? ntohs(address.sin_port) : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisServer>> RedisServer::Start(const Options& options) {
  const char* const parent = std::getenv("TEST_TMPDIR");
  std::string folder = JoinPath(parent == nullptr ? "/tmp" : parent, "redis_server_XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) {
    return ErrnoStatus(errno, absl::StrCat("cannot make '", folder, "'"));
  }
  auto server = absl::WrapUnique(new RedisServer(options, folder));
  const std::string password = server->password_file();
  DING_RETURN_IF_ERROR(WriteFileAtomically(password, options.password));
  if (chmod(password.c_str(), 0600) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot make '", password, "' private"));
  }
  absl::Status status;
  for (int i = 0; i < kPorts; ++i) {
    status = server->StartAt(FreePort());
    if (status.ok()) return server;
  }
  return status;
}

RedisServer::~RedisServer() {
  Kill();
  RemoveRecursively(folder_).IgnoreError();  // The test runner removes what is left.
}

std::string RedisServer::password_file() const { return JoinPath(folder_, "password"); }

std::string RedisServer::Url(absl::string_view prefix) const {
  std::string url =
      absl::StrCat(options_.tls.ca.empty() ? "redis" : "rediss", ":127.0.0.1:", port_, "/", prefix);
  const RedisServerAddress server = address();
  char separator = '?';
  for (const auto& [name, file] :
       {std::pair("password_file", server.password_file), std::pair("tls_ca", server.tls.ca),
        std::pair("tls_cert", server.tls.cert), std::pair("tls_key", server.tls.key)}) {
    if (file.empty()) continue;
    url += absl::StrCat(std::string(1, separator), name, "=", file);
    separator = '&';
  }
  return url;
}

RedisServerAddress RedisServer::address() const {
  RedisServerAddress server;
  server.host = "127.0.0.1";
  server.port = port_;
  if (!options_.password.empty()) server.password_file = password_file();
  server.tls = options_.tls;
  return server;
}

absl::Status RedisServer::StartAt(int port) {
  std::string config =
      absl::StrCat("bind 127.0.0.1\nport ", options_.tls.ca.empty() ? port : 0, "\ndir ", folder_,
                   "\nsave \"\"\nappendonly ", options_.append_fsync.empty() ? "no" : "yes", "\n");
  if (!options_.tls.ca.empty()) {
    absl::StrAppend(&config, "tls-port ", port, "\ntls-ca-cert-file ", options_.tls.ca,
                    "\ntls-cert-file ", options_.tls.cert, "\ntls-key-file ", options_.tls.key,
                    "\n");
  }
  if (!options_.append_fsync.empty()) {
    absl::StrAppend(&config, "appendfsync ", options_.append_fsync, "\n");
  }
  if (!options_.password.empty()) absl::StrAppend(&config, "requirepass ", options_.password, "\n");
  for (const std::string& line : options_.lines) absl::StrAppend(&config, line, "\n");
  const std::string path = JoinPath(folder_, "redis.conf");
  const std::string log = JoinPath(folder_, "log");
  DING_RETURN_IF_ERROR(WriteFileAtomically(path, config));
  port_ = port;
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {  // The child must not take any lock.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);  // It was gone before that.
    const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execlp(kProgram, kProgram, path.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  const absl::Status up = WaitUntilUp();
  if (up.ok()) return up;
  Kill();
  const absl::StatusOr<std::string> said = ReadFile(log);
  return Annotate(up, absl::StrCat(kProgram, " said: ", said.ok() ? *said : "nothing"));
}

absl::Status RedisServer::WaitUntilUp() {
  const Deadline deadline = Deadline::After(kPatience);
  absl::Status status;
  do {
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = 0;
      return absl::UnavailableError("it ended; is it installed (tools/setup redis)?");
    }
    // Redis refuses DBSIZE while it loads its data.
    status = Command({"DBSIZE"}).status();
    if (status.ok()) return status;
    absl::SleepFor(kPause);
  } while (!deadline.Passed());
  return status;
}

void RedisServer::Kill() {
  operator_.reset();
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

absl::Status RedisServer::Restart() {
  Kill();
  return StartAt(port_);
}

absl::StatusOr<std::string> RedisServer::Command(absl::Span<const absl::string_view> args) const {
  if (operator_ == nullptr || operator_->broken()) {
    DING_ASSIGN_OR_RETURN(operator_, RedisConnection::Open(address()));
  }
  DING_ASSIGN_OR_RETURN(RedisReply reply, operator_->Call(args));
  return std::move(reply.text);
}

}  // namespace ding
