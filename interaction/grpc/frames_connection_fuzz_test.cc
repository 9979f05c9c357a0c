// A peer may send any Frames: its messages arrive whole and in order, up to the first part that
// breaks the protocol (link.proto).
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/interaction/grpc/frames_connection.h"
#include "ding_worker/interaction/grpc/link.pb.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kMaxBytes = 1000;

// A connection whose stream is the test.
class Puppet : public FramesConnection {
 public:
  Puppet() : FramesConnection("peer", /*waits=*/false) {
    SetMaxReceivedBytes(kMaxBytes);
    Advance();
  }
  // Ends the read under way; returns false if none is, because the queue is full.
  bool Arrive(const link::Frames& frames) {
    if (reading_ == nullptr) return false;
    *std::exchange(reading_, nullptr) = frames;
    ReadDone(/*ok=*/true);
    return true;
  }
  bool cancelled() const { return cancelled_; }

 private:
  void StartRead(link::Frames* frames) override { reading_ = frames; }
  void StartWrite(const link::Frames* /*frames*/) override {}
  void StartGoodbye() override {}
  void Release() override {}
  void Cancel() override { cancelled_ = true; }

  link::Frames* reading_ = nullptr;
  bool cancelled_ = false;
};

std::string Bytes(const std::vector<std::string>& messages, uint64_t rest) {
  link::Frames frames;
  for (const std::string& message : messages) frames.add_message(message);
  if (rest > 0) frames.set_rest(rest);
  return frames.SerializeAsString();
}

TEST(FramesConnectionFuzz, MessagesArriveWholeUpToTheFirstWrongPart) {
  const std::string good[] = {Bytes({"one", "", "part"}, 6), Bytes({"and "}, 2),
                              Bytes({"on", "two"}, 0), Bytes({}, 0)};
  int whole = 0;
  int refused = 0;
  Fuzz(5000, [&](Mutator* mutator) {
    Puppet puppet;
    std::string sent;
    std::string received;
    for (const std::string& bytes : good) {
      link::Frames frames;
      if (!frames.ParseFromString(mutator->Coin() ? mutator->Mutate(bytes) : bytes)) return;
      for (const std::string& message : frames.message()) sent += message;
      if (!puppet.Arrive(frames)) break;
      std::string message;
      absl::StatusOr<bool> more = true;
      while ((more = puppet.TryReceive(&message)).ok() && *more) {
        EXPECT_LE(message.size(), static_cast<size_t>(kMaxBytes));
        received += message;
      }
      EXPECT_TRUE(absl::StartsWith(sent, received));
      EXPECT_EQ(more.ok(), frames.message_size() > 0 && !puppet.cancelled());
      if (!more.ok()) break;
    }
    ++(received == "onepartand ontwo" ? whole : refused);
  });
  EXPECT_GT(whole, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace ding
