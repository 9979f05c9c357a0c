#include "ding_worker/interaction/redis/redis_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/io_vectors.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/grpc/link_credentials.h"

namespace ding {
namespace {

// The most bytes of a TLS record.
constexpr size_t kRecordBytes = 16384;

constexpr char kNoTlsThere[] =
    "it does not speak TLS there: name its 'tls-port', or begin the URL with 'redis:'";

bool IsAddress(const std::string& host) {
  in6_addr bytes;
  return inet_pton(AF_INET, host.c_str(), &bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

msghdr MessageOf(iovec* parts, int count) {
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<size_t>(count);
  return message;
}

// OpenSSL asks only for flushing.
// NOLINTNEXTLINE(google-runtime-int): as OpenSSL has it
long ControlForTls(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

// What to do about an error of TLS, which is the last one of OpenSSL.
std::string Explain(const SSL* tls) {
  const auto verified = SSL_get_verify_result(tls);
  switch (verified) {
    case X509_V_OK:
      break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "its certificate belongs to another host: use a name or address in the certificate, "
             "or make one that has the name in the URL";
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrCat("its certificate is not valid now (",
                          X509_verify_cert_error_string(verified),
                          "): give Redis a new one, and look at the clocks");
    default:
      return absl::StrCat("its certificate is not signed by an authority in 'tls_ca' (",
                          X509_verify_cert_error_string(verified), ")");
  }
  const auto error = ERR_peek_last_error();
  const int reason = ERR_GET_REASON(error);
  const char* const text = ERR_reason_error_string(error);
  const std::string said = text == nullptr ? "" : absl::StrCat(" (", text, ")");
  if (reason == SSL_R_WRONG_VERSION_NUMBER) return kNoTlsThere;
  if (reason <= SSL_AD_REASON_OFFSET) return absl::StrCat("TLS fails", said);
  if (SSL_get_certificate(tls) == nullptr) {
    return absl::StrCat("it asks for a certificate: set 'tls_cert' and 'tls_key'", said);
  }
  return absl::StrCat("it does not accept the certificate in 'tls_cert'", said);
}

absl::Status Load(const RedisTlsFiles& files) {
  GrpcTransportOptions options;
  options.tls_ca = files.ca;
  options.tls_cert = files.cert;
  options.tls_key = files.key;
  return LoadTls(options, CertificateUse::kCaller, Clock::Real()->Now()).status();
}

}  // namespace

absl::Status CheckRedisTlsFiles(const RedisTlsFiles& files) {
  if (files.cert.empty() == files.key.empty()) return Load(files);
  return absl::InvalidArgumentError(absl::StrCat("'tls_", files.cert.empty() ? "key" : "cert",
                                                 "' is set, but 'tls_",
                                                 files.cert.empty() ? "cert" : "key", "' is not"));
}

void RedisSocket::Free::operator()(SSL* tls) const { SSL_free(tls); }

// Unlike OpenSSL's own, these raise no SIGPIPE, and keep the errno.
int RedisSocket::WriteForTls(BIO* bio, const char* from, int size) {
  auto* const self = static_cast<RedisSocket*>(BIO_get_data(bio));
  return self->Note([&] { return send(self->fd_, from, static_cast<size_t>(size), MSG_NOSIGNAL); });
}

int RedisSocket::ReadForTls(BIO* bio, char* to, int size) {
  auto* const self = static_cast<RedisSocket*>(BIO_get_data(bio));
  return self->Note([&] { return recv(self->fd_, to, static_cast<size_t>(size), 0); });
}

template <typename Move>
int RedisSocket::Note(Move move) {
  ssize_t moved = 0;
  do {
    moved = move();
  } while (moved < 0 && errno == EINTR);
  error_ = moved < 0 ? errno : moved == 0 ? kIoEnded : 0;
  return static_cast<int>(moved);
}

absl::Status RedisSocket::StartTls(const RedisTlsFiles& files, const std::string& host) {
  const auto refused = [](const absl::Status& status) {
    return absl::UnauthenticatedError(status.message());
  };
  const absl::Status usable = CheckRedisTlsFiles(files);
  if (!usable.ok()) return refused(usable);
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "Redis");
    BIO_meth_set_write(made, WriteForTls);
    BIO_meth_set_read(made, ReadForTls);
    BIO_meth_set_ctrl(made, ControlForTls);
    return made;
  }();
  ERR_clear_error();
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()),
                                                             SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  bool loaded = SSL_CTX_load_verify_file(context.get(), files.ca.c_str()) == 1;
  if (!files.cert.empty()) {
    loaded = loaded && SSL_CTX_use_certificate_chain_file(context.get(), files.cert.c_str()) == 1 &&
             SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) == 1;
  }
  if (!loaded) {
    return absl::UnauthenticatedError(
        absl::StrCat("cannot use '", files.ca, "', '", files.cert, "' or '", files.key, "'"));
  }
  tls_.reset(SSL_new(context.get()));
  BIO* const bio = BIO_new(method);
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(tls_.get(), bio, bio);
  if (IsAddress(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_.get()), host.c_str());
  } else {
    SSL_set1_host(tls_.get(), host.c_str());
    SSL_set_tlsext_host_name(tls_.get(), host.c_str());
  }
  if (ResultOf(SSL_connect(tls_.get())) > 0) return absl::OkStatus();
  if (!problem_.empty()) return absl::UnauthenticatedError(problem_);
  if (error_ == EAGAIN || error_ == EWOULDBLOCK) {
    return absl::DeadlineExceededError(absl::StrCat("it does not answer; perhaps ", kNoTlsThere));
  }
  return absl::UnavailableError(error_ == kIoEnded ? "it closed the connection"
                                                   : std::strerror(error_));
}

ssize_t RedisSocket::ResultOf(int returned) {
  if (returned > 0) return returned;
  switch (SSL_get_error(tls_.get(), returned)) {
    case SSL_ERROR_ZERO_RETURN:
      error_ = kIoEnded;
      return 0;
    case SSL_ERROR_SYSCALL:
      errno = error_;
      return error_ == kIoEnded ? 0 : -1;
    default:
      problem_ = Explain(tls_.get());
      errno = EPROTO;
      return -1;
  }
}

ssize_t RedisSocket::Send(iovec* parts, int count) {
  if (tls_ == nullptr) {
    const msghdr message = MessageOf(parts, count);
    return sendmsg(fd_, &message, MSG_NOSIGNAL);
  }
  ERR_clear_error();
  if (parts->iov_len >= kRecordBytes || count == 1) {
    const size_t size = std::min(parts->iov_len, kRecordBytes);
    return ResultOf(SSL_write(tls_.get(), parts->iov_base, static_cast<int>(size)));
  }
  char record[kRecordBytes];  // Small parts share one.
  size_t size = 0;
  for (int i = 0; i < count && size < kRecordBytes; ++i) {
    const size_t taken = std::min(parts[i].iov_len, kRecordBytes - size);
    if (taken > 0) std::memcpy(record + size, parts[i].iov_base, taken);
    size += taken;
  }
  return ResultOf(SSL_write(tls_.get(), record, static_cast<int>(size)));
}

ssize_t RedisSocket::Receive(iovec* parts, int count, int flags) {
  if (tls_ == nullptr) {
    msghdr message = MessageOf(parts, count);
    return recvmsg(fd_, &message, flags);
  }
  ERR_clear_error();
  const auto size = static_cast<int>(std::min(parts->iov_len, kRecordBytes));
  return ResultOf(SSL_read(tls_.get(), parts->iov_base, size));
}

}  // namespace ding
