// An env process may die while it writes or damage the shared memory: whatever the bytes are, a
// reader takes values within bounds or refuses them.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/process/process_message.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr uint64_t kRounds = 10000;

// Calls `take` with mutants of the bytes that `put` wrote; some of them are cut off.
template <typename PutValues, typename TakeValues>
void FuzzMessage(const PutValues& put, const TakeValues& take) {
  ProcessMessageWriter out;
  put(&out);
  int whole = 0;
  int refused = 0;
  Fuzz(kRounds, [&](Mutator* mutator) {
    const std::string bytes = mutator->Mutate(out.bytes());
    ProcessMessageReader in(bytes);
    take(&in, bytes.size());
    ++(in.ok() ? whole : refused);
  });
  if (FuzzRounds(kRounds) < kRounds) return;
  EXPECT_GT(whole, 0);
  EXPECT_GT(refused, 0);
}

TEST(ProcessMessageFuzz, Status) {
  FuzzMessage([](ProcessMessageWriter* out) { Put(absl::InternalError("the env is stuck"), out); },
              [](ProcessMessageReader* in, size_t size) {
                EXPECT_LE(TakeStatus(in).message().size(), size);
              });
}

TEST(ProcessMessageFuzz, NamedValues) {
  NamedValues values;
  values.Set("score", 3);
  values.Set("lives", 0.5);
  FuzzMessage(
      [&](ProcessMessageWriter* out) { Put(values, out); },
      [](ProcessMessageReader* in, size_t size) { EXPECT_LE(TakeNamedValues(in).size(), size); });
}

TEST(ProcessMessageFuzz, Image) {
  Image image;
  image.width = 2;
  image.height = 3;
  image.rgb.assign(18, 7);
  FuzzMessage(
      [&](ProcessMessageWriter* out) { Put(image, out); },
      [](ProcessMessageReader* in, size_t size) { EXPECT_LE(TakeImage(in).rgb.size(), size); });
}

TEST(ProcessMessageFuzz, State) {
  StateDict state;
  ASSERT_THAT(state.WriteInt("steps", 7), IsOk());
  ASSERT_THAT(state.WriteSpan<float>("position", {1, 2, 3}), IsOk());
  ASSERT_THAT(state.WriteString("text", "abc"), IsOk());
  FuzzMessage([&](ProcessMessageWriter* out) { Put(state, out); },
              [](ProcessMessageReader* in, size_t size) {
                StateDict taken;
                TakeState(in, &taken).IgnoreError();
                int64_t bytes = 0;
                for (const auto& [name, tensor] : taken.tensors()) bytes += tensor.size_bytes();
                EXPECT_LE(bytes, static_cast<int64_t>(size));
              });
}

TEST(ProcessMessageFuzz, EnvSpec) {
  EnvSpec spec;
  spec.name = "Env-v0";
  spec.observation = MakeSpec({Box("obs/a", {2}, {-1}, {1}), Box("obs/b", {3, 4})}).value();
  spec.action = MakeSpec({Discrete("action", 3)}).value();
  FuzzMessage([&](ProcessMessageWriter* out) { Put(spec, out); },
              [](ProcessMessageReader* in, size_t size) {
                EnvSpec taken;
                if (!TakeEnvSpec(in, &taken).ok()) return;
                ASSERT_NE(taken.observation, nullptr);
                for (const FieldSpec& field : taken.observation->fields()) {
                  EXPECT_LE(field.name.size(), size);
                  EXPECT_FALSE(DTypeName(field.dtype).empty());
                }
              });
}

}  // namespace
}  // namespace ding
