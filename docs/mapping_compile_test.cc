// Uses the symbols of docs/mapping.md, so that a row that names a symbol which is gone, or has other arguments, does
// not compile. A row of this file is a name of DI-engine and what stands for it; the test compares the names with
// docs/names.txt.
//
// To add a row: `{"Class.method", Uses(&Class::Method)}`, or UsesType<Class>(). An overloaded function, or one whose
// arguments matter, is a lambda that calls it: `Uses([](Class* object) { return object->Method(1); })`.
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/transition.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// What a row names exists, if the row compiles.
struct Used {};
template <typename... Symbols>
Used Uses(const Symbols&...) {
  return {};
}
template <typename... Types>
Used UsesType() {
  static_assert((sizeof(Types) + ...) > 0);
  return {};
}

using Rows = std::vector<std::pair<std::string, Used>>;

Rows Collectors() {
  return {
      {"to_tensor_transitions", Uses(&MakeSegments)},
  };
}

Rows Buffers() {
  return {
      {"IBuffer.push",
       Uses([](IBuffer* buffer, const SegmentBatch& rows) { return buffer->Push(rows, 1); },
            [](IBuffer* buffer, const Transition& one) { return buffer->Push(one, 1); },
            [](IBuffer* buffer, absl::Span<const Transition> many) {
              return buffer->Push(many, 1);
            })},
      {"NaiveReplayBuffer.push",
       Uses([](NaiveReplayBuffer* buffer, const Transition& one) { return buffer->Push(one, 1); })},
      {"NaiveReplayBuffer.close", Uses(&NaiveReplayBuffer::Close)},
      {"AdvancedReplayBuffer.close", Uses(&AdvancedReplayBuffer::Close)},
  };
}

TEST(MappingTest, EachRow_IsANameOfDiEngine) {
  DING_ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile("docs/names.txt"));
  const std::set<std::string> names = absl::StrSplit(text, '\n', absl::SkipEmpty());
  std::set<std::string> seen;
  for (const Rows& rows : {Collectors(), Buffers()}) {
    for (const auto& [name, used] : rows) {
      EXPECT_TRUE(names.count(name) == 1) << name;
      EXPECT_TRUE(seen.insert(name).second) << name << " comes twice";
    }
  }
}

}  // namespace
}  // namespace ding
