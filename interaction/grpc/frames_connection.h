// The part of a gRPC connection that does not depend on gRPC: its two queues, the choice of the
// next operation on the stream, and the way in which both sides close it.
//
//     Send ──► to_send_ ──► StartWrite(Frames) ... WriteDone      one write at a time
//     Receive ◄── received_ ◄── ReadDone ... StartRead(Frames)    one read at a time, if there is room
//
// A derived class starts the operations and reports their ends, from any thread. Once reading has
// ended and no operation is under way, Release() tells it to release the stream; Released() is the
// last report.
//
// Ownership: the stream must live until Released(). So the owner deletes the connection only if
//            released() after Close(). gRPC never releases a stream if it could not start the
//            thread for the stream's last report.
// Threads:   thread-safe.
#ifndef DING_WORKER_INTERACTION_GRPC_FRAMES_CONNECTION_H_
#define DING_WORKER_INTERACTION_GRPC_FRAMES_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/grpc/link.pb.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

// The most bytes of messages in one Frames, and the size limit that gRPC gets for it: for any peer,
// gRPC allocates no more than that at a time. A longer message is sent in parts.
// (With 256 KiB, system calls are cheap and a write still starts soon; each message adds a few
// bytes.)
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
  // Waits for Released(), but not for more than kReleaseTimeout.
  void Close() override { CloseWithin(kFlushTimeout); }
  void BeginClose() override;
  const std::string& peer() const override { return peer_; }

  // Does the same as Close(), but gives the peer `flush` to receive the sent messages.
  void CloseWithin(absl::Duration flush);
  // Waits until the other side has taken the connection.
  //   kDeadlineExceeded  it did not take the connection within `timeout`
  //   kUnavailable       it refused the connection, or is gone
  absl::Status WaitUntilOpen(absl::Duration timeout);
  // Whether nothing more can be received: the peer has closed or is gone, and all its messages were
  // received.
  bool exhausted() const;
  // Whether Released() was reported: gRPC does not use the connection any more.
  bool released() const;
  // Tells a connection that was created to wait that it has been accepted. Until then it reads only
  // the first Frames.
  void NotifyAccepted();

 protected:
  // `waits`: whether the connection waits to be accepted, see NotifyAccepted().
  FramesConnection(std::string peer, bool waits);

  // The operations. They are called without a lock, on threads that call the public methods or the
  // reports below, and never for two reads or two writes at once. The frames live until the
  // operation has ended.
  virtual void StartRead(link::Frames* frames) = 0;
  virtual void StartWrite(const link::Frames* frames) = 0;
  // Starts the last write. It also ends with WriteDone().
  virtual void StartGoodbye() = 0;
  // Called when nothing is under way and nothing will be started. The derived class then reports
  // Released().
  virtual void Release() = 0;
  // Makes all operations under way fail soon. It is called at most once, before Released() and with
  // the lock held, so it must not report anything itself.
  virtual void Cancel() = 0;

  // Starts the operations that can be started. A derived class calls it once, when its stream can
  // be used.
  void Advance();
  // The reports of a derived class. With ok = false, no further operation of this kind can succeed.
  void Opened();
  void ReadDone(bool ok);
  void WriteDone(bool ok);
  // The last report; the object may be destroyed after it. `reason` is used in error messages.
  void Released(absl::string_view reason);

 private:
  static constexpr absl::Duration kFlushTimeout = absl::Seconds(1);
  static constexpr absl::Duration kReleaseTimeout = absl::Seconds(5);

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

  // Whether to start another read: whether received_ has room, not counting the next Frames.
  bool ReadsOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the messages of incoming_ to received_. Returns an error if they break the protocol.
  absl::Status TakeFrames() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the first or the next part of a message; `rest` bytes of the message are still to come.
  absl::Status TakePart(std::string part, uint64_t rest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckSize(uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Disconnect(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Return the callback to call after the lock is released, or nullptr if nobody waits for the
  // event.
  Ready WakeReceiver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Ready WakeSender() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fills outgoing_ with the next messages to send, as many as fit in one write.
  void FillOutgoing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PeerClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Closed() const;
  absl::Status PeerGone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string peer_;
  // Each is used by the operation under way; if there is none, the thread that holds the lock may
  // use it.
  link::Frames incoming_;
  link::Frames outgoing_;

  mutable Mutex mutex_;
  CondVar receivable_;  // received_, closing_, receiving_over_
  CondVar sendable_;    // to_send_, closing_, sending_over_
  CondVar state_;       // opened_, gone_
  Queue received_ ABSL_GUARDED_BY(mutex_);
  Queue to_send_ ABSL_GUARDED_BY(mutex_);
  std::string part_ ABSL_GUARDED_BY(mutex_);       // the received bytes of an unfinished message
  uint64_t missing_ ABSL_GUARDED_BY(mutex_) = 0;   // its bytes that are still to come
  size_t front_sent_ ABSL_GUARDED_BY(mutex_) = 0;  // sent bytes of the first message of to_send_
  int64_t max_received_bytes_ ABSL_GUARDED_BY(mutex_) = kMaxMessageBytes;
  Ready ready_ ABSL_GUARDED_BY(mutex_);
  // TryReceive() or TrySend() returned false, so ready_ has to be called when it can succeed.
  bool receiver_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool sender_waits_ ABSL_GUARDED_BY(mutex_) = false;
  Deadline close_by_ ABSL_GUARDED_BY(mutex_) = Deadline::Never();
  Deadline release_by_ ABSL_GUARDED_BY(mutex_) = Deadline::Never();
  bool waits_ ABSL_GUARDED_BY(mutex_);  // until it is accepted
  bool opened_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool write_ended_ ABSL_GUARDED_BY(mutex_) = false;     // also when the goodbye has been started
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;         // by this side
  bool receiving_over_ ABSL_GUARDED_BY(mutex_) = false;  // the peer sends no more messages
  bool sending_over_ ABSL_GUARDED_BY(mutex_) = false;    // the peer takes no more messages
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  std::string reason_ ABSL_GUARDED_BY(mutex_);  // why the peer is gone; empty: it closed
};

// Deletes a connection that gRPC has released. Leaks a connection that gRPC still refers to.
struct DeleteReleased {
  void operator()(FramesConnection* connection) const;
};
template <typename FramesConnectionType>
using OwnedFrames = std::unique_ptr<FramesConnectionType, DeleteReleased>;

// A user's end of a connection. gRPC may keep the stream behind it for longer.
class GrpcConnection final : public Connection {
 public:
  explicit GrpcConnection(OwnedFrames<FramesConnection> frames) : frames_(std::move(frames)) {}

  absl::Status Send(std::string message, absl::Duration timeout) override {
    return frames_->Send(std::move(message), timeout);
  }
  absl::StatusOr<std::string> Receive(absl::Duration timeout) override {
    return frames_->Receive(timeout);
  }
  absl::StatusOr<bool> TrySend(std::string* message) override { return frames_->TrySend(message); }
  absl::StatusOr<bool> TryReceive(std::string* message) override {
    return frames_->TryReceive(message);
  }
  void SetReadyCallback(std::function<void()> ready) override {
    frames_->SetReadyCallback(std::move(ready));
  }
  void SetMaxReceivedBytes(int64_t bytes) override { frames_->SetMaxReceivedBytes(bytes); }
  void Close() override { frames_->Close(); }
  void BeginClose() override { frames_->BeginClose(); }
  const std::string& peer() const override { return frames_->peer(); }
  absl::string_view identity() const override { return frames_->identity(); }

 private:
  const OwnedFrames<FramesConnection> frames_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_FRAMES_CONNECTION_H_
