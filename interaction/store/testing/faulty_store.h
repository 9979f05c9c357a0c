// A store before another one, that fails as stores do: calls fail before or after they took effect,
// a Put that failed takes effect later, what was put last is lost, everything is lost.
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

  // Of each Put, and of each Get: fails with kUnavailable. Of three Puts that fail one has taken
  // effect, one does later, and one never does.
  void set_failing(double probability) { failing_ = probability; }
  // Each Put is refused: kResourceExhausted.
  void set_full(bool full) { full_ = full; }
  // Puts that failed take effect now.
  void TakeEffectLate();
  // The last `puts` Puts are undone; those of Clear() and before are not.
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
    std::optional<std::string> value;  // before; none: there was none
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
