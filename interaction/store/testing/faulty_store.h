// A store that wraps another one and fails in the ways in which stores fail: calls fail before or
// after they took effect, a failed Put takes effect later, the last Puts or all of them are lost,
// or every Put is refused because the store is full.
//
// Ownership: the other store outlives it.
// Threads:   thread-compatible.
#ifndef DING_WORKER_INTERACTION_STORE_TESTING_FAULTY_STORE_H_
#define DING_WORKER_INTERACTION_STORE_TESTING_FAULTY_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

class FaultyStore : public Store {
 public:
  explicit FaultyStore(Store* store, uint64_t seed = 0) : store_(store), rng_(seed, "faults") {}

  // Sets the probability with which each Put, Get and Delete fails with kUnavailable. On average,
  // one of three failed Puts has taken effect, one takes effect later, and one never does.
  void set_failing(double probability) { failing_ = probability; }
  // Sets whether each Put is refused with kResourceExhausted.
  void set_full(bool full) { full_ = full; }
  // Makes the failed Puts take effect that are due to do so later.
  void TakeEffectLate();
  // Undoes the last `puts` Puts, but none before the last Clear().
  void LoseLast(int puts);

  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override;
  absl::Status Get(absl::string_view key, std::string* value) override;
  absl::Status Delete(absl::string_view key) override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) override;
  absl::Status Clear() override;
  const std::string& url() const override { return store_->url(); }

  int64_t put_count() const { return puts_; }

 private:
  struct Undo {
    std::string key;
    std::optional<std::string> value;  // the value before the Put, if there was one
  };

  absl::Status Apply(absl::string_view key, absl::string_view value);

  Store* const store_;
  Rng rng_;
  double failing_ = 0;
  bool full_ = false;
  int64_t puts_ = 0;
  std::vector<std::pair<std::string, std::string>> late_;
  std::vector<Undo> undo_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_TESTING_FAULTY_STORE_H_
