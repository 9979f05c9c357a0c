#include "ding_worker/learner/comm/model_digest.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/crc32c.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"

namespace ding {
namespace {

// Remembers what a model is made of, and not what its parameters are.
class ShapeWriter : public StateWriter {
 public:
  absl::Status Write(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                     absl::Span<const absl::string_view> /*parts*/) override {
    absl::StrAppend(&text_, name, " ", DTypeName(dtype), "[", absl::StrJoin(shape, ","), "]\n");
    return absl::OkStatus();
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class CrcWriter : public StateWriter {
 public:
  absl::Status Write(absl::string_view name, DType /*dtype*/, absl::Span<const int64_t> /*shape*/,
                     absl::Span<const absl::string_view> parts) override {
    uint32_t crc = 0;
    for (const absl::string_view part : parts) crc = Crc32c(part, crc);
    digests_.emplace_back(name, crc);
    return absl::OkStatus();
  }
  std::vector<std::pair<std::string, uint32_t>> Take() { return std::move(digests_); }

 private:
  std::vector<std::pair<std::string, uint32_t>> digests_;
};

}  // namespace

absl::StatusOr<std::string> ModelDigest(const LearnMode& policy) {
  ShapeWriter shapes;
  DING_RETURN_IF_ERROR(policy.SaveModel(&shapes));
  return absl::StrCat(absl::Hex(Crc32c(shapes.text()), absl::kZeroPad8), "-", shapes.text().size());
}

absl::StatusOr<std::vector<std::pair<std::string, uint32_t>>> TensorDigests(
    const LearnMode& policy) {
  CrcWriter digests;
  DING_RETURN_IF_ERROR(policy.SaveModel(&digests));
  return digests.Take();
}

}  // namespace ding
