// A store of a parallel run: "counting:URL" keeps its values in the store of URL, and logs now and
// then how many values its process has written and read. The scheme of system.store_url names it.
//   system { store_url: "counting:file:/dev/shm/runs" }
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/store/store_registry.h"

namespace own {
namespace {

class CountingStore : public ding::Store {
 public:
  explicit CountingStore(std::unique_ptr<ding::Store> base)
      : base_(std::move(base)), url_("counting:" + base_->url()) {}

  absl::Status Put(absl::string_view key, absl::Span<const absl::string_view> pieces) override {
    const int64_t puts = ++puts_;
    DING_LOG_IF(INFO, puts % 100 == 1) << url_ << ": " << puts << " puts, " << gets_ << " gets";
    return base_->Put(key, pieces);
  }
  absl::Status Get(absl::string_view key, std::string* value) override {
    ++gets_;
    return base_->Get(key, value);
  }
  absl::Status Delete(absl::string_view key) override { return base_->Delete(key); }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view prefix) override {
    return base_->List(prefix);
  }
  absl::Status Clear() override { return base_->Clear(); }
  const std::string& url() const override { return url_; }

 private:
  const std::unique_ptr<ding::Store> base_;
  const std::string url_;
  std::atomic<int64_t> puts_{0};
  std::atomic<int64_t> gets_{0};
};

DING_REGISTER(
    ding::StoreRegistry(), "counting",
    [](const std::string& place,
       const ding::StoreSettings& settings) -> absl::StatusOr<std::unique_ptr<ding::Store>> {
      DING_RETURN_IF_ERROR(ding::CheckStoreSettings(settings, {}));
      DING_ASSIGN_OR_RETURN(auto base, ding::create_store(place));
      return std::make_unique<CountingStore>(std::move(base));
    },
    "counting:URL: another store, whose puts and gets are counted");

}  // namespace
}  // namespace own
