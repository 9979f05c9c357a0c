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

#include <cstdint>
#include <deque>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/grpc/link.pb.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

class FramesConnection : public Connection {
 public:
  absl::Status Send(std::string message, absl::Duration timeout) override;
  absl::StatusOr<std::string> Receive(absl::Duration timeout) override;
  void Close() override { CloseWithin(kFlushTimeout); }
  const std::string& peer() const override { return peer_; }

  // As Close(), but gives the peer `flush` to take what was sent.
  void CloseWithin(absl::Duration flush);
  // Waits for the other side to have taken the connection.
  //   kDeadlineExceeded  it has not
  //   kUnavailable       it has refused, or is gone
  absl::Status WaitUntilOpen(absl::Duration timeout);
  // Nothing can be received any more: the peer has closed, or is gone, and all it sent was taken.
  bool exhausted() const;

 protected:
  explicit FramesConnection(std::string peer);

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
    bool full() const { return messages.size() >= kMaxQueuedMessages || bytes >= kMaxMessageBytes; }
    void Push(std::string message);
    std::string Pop();
    void Clear();

    std::deque<std::string> messages;
    int64_t bytes = 0;
  };

  // Takes what was read; says what is wrong with it.
  absl::Status TakeFrames() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
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
