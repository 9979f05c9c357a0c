// A selector: "recent" draws new rows more often than old ones, whatever the buffer calls a row: in
// a parallel run it is an item, in a buffer of sequences a sequence.
//   replay_buffer { selector { type: "recent" } }
#include <memory>

#include "ding_worker/replay_buffer/buffer_registry.h"

namespace own {
namespace {

class RecentSelector : public ding::ISelector {
 public:
  absl::Status Select(const ding::Candidates& from, int64_t newest, bool /*replace*/,
                      ding::Rng* rng, absl::Span<int64_t> ranks) override {
    for (int64_t& rank : ranks) {  // u^2 is nearer to 0, which stands for the newest.
      const double u = rng->Uniform(0, 1);
      rank = from.size() - 1 - static_cast<int64_t>(u * u * static_cast<double>(newest));
    }
    return absl::OkStatus();
  }
};

DING_REGISTER(
    ding::SelectorRegistry(), "recent",
    [](const ding::SelectorConfig&, const ding::NoParams&) {
      return std::make_unique<RecentSelector>();
    },
    "new rows more often than old ones");

}  // namespace
}  // namespace own
