// The part of a gRPC connection that knows nothing of gRPC: its two queues, what to do next on the
// stream, and how both sides part.
//
//     Send ──► to_send_ ──► StartWrite(Frames) ... WriteDone      one write at a time
//     Receive ◄── received_ ◄── ReadDone ... StartRead(Frames)    one read at a time, if there is room
//
// A derived class starts the operations and reports their ends, from any thread. Once reading has
// ended and nothing is under way it is told to Release() the stream; Gone() is the last report.
//
// Ownership: of the stream, in the sense that its destructor must wait for Gone(): a derived class
//            calls Close() in its own.
// Threads:   thread-safe.
#ifndef DING_WORKER_INTERACTION_GRPC_FRAMES_CONNECTION_H_
#define DING_WORKER_INTERACTION_GRPC_FRAMES_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/deadline.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/grpc/link.pb.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

// The largest Frames, for gRPC's own limit: memory is taken for no more than that at a time, whatever
// a peer sends. A longer message comes in parts. (256 KiB make system calls cheap, and are under way
// soon; each message has a few bytes more.)
inline constexpr int64_t kFramesBytes = int64_t{256} << 10;
inline constexpr int64_t kMaxFramesBytes = kFramesBytes + 16 * (kMaxQueuedMessages + 1);

class FramesConnection : public Connection {
 public:
  absl::Status Send(std::string message, absl::Duration timeout) override;
  absl::StatusOr<std::string> Receive(absl::Duration timeout) override;
  absl::StatusOr<bool> TrySend(std::string* message) override;
  absl::StatusOr<bool> TryReceive(std::string* message) override;
  void SetReadyCallback(std::function<void()> ready) override;
  void SetMaxReceivedBytes(int64_t bytes) override;
  void Close() override { CloseWithin(kFlushTimeout); }
  void BeginClose() override;
  const std::string& peer() const override { return peer_; }

  // As Close(), but gives the peer `flush` to take what was sent.
  void CloseWithin(absl::Duration flush);
  // Waits for the other side to have taken the connection.
  //   kDeadlineExceeded  it has not
  //   kUnavailable       it has refused, or is gone
  absl::Status WaitUntilOpen(absl::Duration timeout);
  // Nothing can be received any more: the peer has closed, or is gone, and all it sent was taken.
  bool exhausted() const;
  // Somebody has the connection, and receives. Until then nothing is read behind the first Frames,
  // if the connection was made to wait.
  void EndWaiting();

 protected:
  // `waits`: to be accepted.
  FramesConnection(std::string peer, bool waits);

  // Called without a lock, from the threads of the caller or of the reports; never two reads or two
  // writes at once. The frames live until the operation has ended.
  virtual void StartRead(link::Frames* frames) = 0;
  virtual void StartWrite(const link::Frames* frames) = 0;
  // The last write; WriteDone() is its end, too.
  virtual void StartGoodbye() = 0;
  // Nothing is under way and nothing will be started. Gone() follows.
  virtual void Release() = 0;
  // What is under way ends soon, without success. Called at most once, before Gone(); a report must
  // not come from inside of it.
  virtual void Cancel() = 0;

  // Starts what can be started. A derived class calls it once, when its stream can be used.
  void Advance();
  // Reports. With ok = false, no further operation of this kind can succeed.
  void Opened();
  void ReadDone(bool ok);
  void WriteDone(bool ok);
  // The last one, after which the object may be destroyed. `reason` is for messages to people.
  void Gone(absl::string_view reason);

 private:
  static constexpr absl::Duration kFlushTimeout = absl::Seconds(1);

  struct Queue {
    bool HasRoom(int64_t more) const {
      return messages.empty() ||
             (messages.size() < kMaxQueuedMessages && bytes + more <= kMaxQueuedBytes);
    }
    void Push(std::string message);
    std::string Pop();
    void Clear();

    std::deque<std::string> messages;
    int64_t bytes = 0;
  };

  using Ready = std::shared_ptr<const std::function<void()>>;

  // Whether to read on: received_ is bounded without the next Frames.
  bool ReadsOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes what was read; says what is wrong with it.
  absl::Status TakeFrames() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first `size` bytes of a message, or the next ones, of which `rest` are still to come.
  absl::Status TakePart(std::string part, uint64_t rest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckSize(uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Disconnect(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whom to call without the lock; nullptr: nobody waits for what has happened.
  Ready WakeReceiver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Ready WakeSender() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next messages to send, as many as one write may have.
  void FillOutgoing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PeerClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Closed() const;
  absl::Status PeerGone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string peer_;
  // Each belongs to the operation under way, else to who holds the lock.
  link::Frames incoming_;
  link::Frames outgoing_;

  mutable Mutex mutex_;
  CondVar receivable_;  // received_, closing_, receiving_over_
  CondVar sendable_;    // to_send_, closing_, sending_over_
  CondVar state_;       // opened_, gone_
  Queue received_ ABSL_GUARDED_BY(mutex_);
  Queue to_send_ ABSL_GUARDED_BY(mutex_);
  std::string part_ ABSL_GUARDED_BY(mutex_);       // of the message that is being received
  uint64_t missing_ ABSL_GUARDED_BY(mutex_) = 0;   // bytes of it
  size_t front_sent_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes of the first message of to_send_
  int64_t max_received_bytes_ ABSL_GUARDED_BY(mutex_) = kMaxMessageBytes;
  Ready ready_ ABSL_GUARDED_BY(mutex_);
  // A Try returned false, so that ready_ is to be called.
  bool receiver_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool sender_waits_ ABSL_GUARDED_BY(mutex_) = false;
  Deadline close_by_ ABSL_GUARDED_BY(mutex_) = Deadline::Never();
  bool waits_ ABSL_GUARDED_BY(mutex_);  // to be accepted
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool write_ended_ ABSL_GUARDED_BY(mutex_) = false;     // also: the goodbye is on its way
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;         // by this side
  bool receiving_over_ ABSL_GUARDED_BY(mutex_) = false;  // the peer sends no more messages
  bool sending_over_ ABSL_GUARDED_BY(mutex_) = false;    // the peer takes no more messages
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  std::string reason_ ABSL_GUARDED_BY(mutex_);  // why the peer is gone, if it did not just close
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_FRAMES_CONNECTION_H_
