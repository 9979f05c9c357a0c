// Makes certificates and token files for tests, valid and invalid ones. They are made quickly, and
// may have dates that no tool would give them.
//
//   TestAuthority authority(folder, "ca");
//   authority.Issue("collector", {});        // folder/collector.pem, folder/collector.key
//   options.tls_ca = authority.path();
//
// Threads: thread-compatible.
#ifndef DING_WORKER_INTERACTION_GRPC_TESTING_TEST_CREDENTIALS_H_
#define DING_WORKER_INTERACTION_GRPC_TESTING_TEST_CREDENTIALS_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace ding {

struct TestCertificate {
  // In the form of OpenSSL's subjectAltName: "DNS:trainer.lan,IP:127.0.0.1". Empty means none.
  std::string names = "DNS:localhost,IP:127.0.0.1,IP:::1";
  std::string usage = "serverAuth,clientAuth";
  // Relative to now.
  absl::Duration valid_from = -absl::Hours(1);
  absl::Duration valid_to = absl::Hours(1);
};

class TestAuthority {
 public:
  // Writes folder/name.pem.
  TestAuthority(absl::string_view folder, absl::string_view name,
                const TestCertificate& certificate = {});
  ~TestAuthority();

  const std::string& path() const { return path_; }
  // Writes folder/name.pem and folder/name.key.
  void Issue(absl::string_view name, const TestCertificate& certificate = {}) const;

 private:
  struct Parts;

  const std::string folder_;
  const std::string path_;
  std::unique_ptr<Parts> parts_;
};

// Writes a file that only its owner may read.
void WritePrivateFile(const std::string& path, absl::string_view text);

// Returns the token of a role in TestTokens().
std::string TestToken(absl::string_view role);
// Returns the text of a token file with a token for each role.
std::string TestTokens();

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_TESTING_TEST_CREDENTIALS_H_
