// Keeps values in the memory of this process: for runs in one process, and for tests.
//
// Its size is limited only by the memory of the machine.
//
// Ownership: the values under a name live as long as the last store that was made with that name.
// Threads:   thread-safe; the lock is not held while bytes are copied.
#ifndef DING_WORKER_INTERACTION_STORE_MEM_STORE_H_
#define DING_WORKER_INTERACTION_STORE_MEM_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

class MemStore : public Store {
 public:
  // All stores with the same `name` in this process share their values. With an empty name the
  // values are private to this object.
  explicit MemStore(absl::string_view name = "");

  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override;
  absl::Status Get(absl::string_view key, std::string* value) override;
  absl::Status Delete(absl::string_view key) override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) override;
  absl::Status Clear() override;
  const std::string& url() const override { return url_; }

 private:
  struct Content;

  static std::shared_ptr<Content> ContentOf(absl::string_view name);

  const std::string url_;
  const std::shared_ptr<Content> content_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_MEM_STORE_H_
