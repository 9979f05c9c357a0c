// Saves and restores the state of components as named tensors. Tensors pass one after the other, so
// that a large component (a replay buffer) needs no second copy of its state in memory.
//
// A component has `absl::Status SaveState(StateWriter*) const` and `absl::Status
// LoadState(StateReader*)`. SaveState must write the same names, types and shapes each time it is
// called on the same state: a file writer calls it several times, to measure and then to write.
// LoadState must read and check everything before it changes the component.
//
// Names are nested with '/'; a component gives each of its parts a scope:
//   ScopedStateWriter optimizer_writer(writer, "optimizer");
//   DING_RETURN_IF_ERROR(optimizer_.SaveState(&optimizer_writer));
//
// Threads: thread-compatible.
#ifndef DING_WORKER_DATA_STATE_H_
#define DING_WORKER_DATA_STATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"

namespace ding {

class StateWriter {
 public:
  virtual ~StateWriter() = default;

  // Writes a tensor whose row-major bytes are the concatenation of the parts. The parts must add up
  // to the size of `shape`. kAlreadyExists for a repeated name.
  virtual absl::Status Write(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                             absl::Span<const absl::string_view> parts) = 0;

  // Writes a tensor that is computed piece by piece. `pieces` calls its argument with one piece
  // after the other, and returns the first error. The pieces must add up to the size of `shape`. If
  // needs_values(dtype) is false, `pieces` is not called. By default the pieces are collected in
  // memory and passed to Write(); a writer of files writes each piece at once.
  using Pieces =
      absl::FunctionRef<absl::Status(absl::FunctionRef<absl::Status(absl::string_view)>)>;
  virtual absl::Status WriteInPieces(absl::string_view name, DType dtype,
                                     absl::Span<const int64_t> shape, Pieces pieces);

  // Whether the values of tensors of this type matter. They do not while a writer only measures, or
  // writes tensors of another type. Values that take time to compute may then be any values.
  virtual bool needs_values(DType /*dtype*/) const { return true; }
  // Calls `kept` when the state has been saved for good, for example when its file has its name. A
  // component may then delete what only earlier states refer to. If saving fails, `kept` is never
  // called. By default it is never called.
  virtual void WhenKept(std::function<void()> /*kept*/) {}

  absl::Status WriteTensor(absl::string_view name, const Tensor& tensor);
  template <typename T>
  absl::Status WriteSpan(absl::string_view name, absl::Span<const T> values) {
    const absl::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                  values.size() * sizeof(T));
    return Write(name, kDTypeOf<T>, {static_cast<int64_t>(values.size())}, {bytes});
  }
  absl::Status WriteInt(absl::string_view name, int64_t value);
  absl::Status WriteDouble(absl::string_view name, double value);
  absl::Status WriteString(absl::string_view name, absl::string_view value);
  absl::Status WriteRng(absl::string_view name, const Rng& rng);
};

struct TensorInfo {
  DType dtype;
  Shape shape;
};

// The largest count that ReadCount() accepts: far above every count of a run, far below overflow.
inline constexpr int64_t kMaxSavedCount = int64_t{1} << 62;

class StateReader {
 public:
  virtual ~StateReader() = default;

  // kNotFound, naming the tensor and the source, if there is no such tensor.
  virtual absl::StatusOr<TensorInfo> Info(absl::string_view name) const = 0;
  // Reads the bytes of a tensor into consecutive `parts`, whose sizes must add up to its size.
  virtual absl::Status Read(absl::string_view name, absl::Span<const absl::Span<char>> parts) = 0;
  // Calls `take` with the bytes of a tensor in their order, `piece_bytes` >= 1 at a time; the last
  // piece may be shorter. The pieces add up to the size of the tensor. A piece is valid during the
  // call. By default the whole tensor is read first; a reader of files holds one piece.
  virtual absl::Status ReadInPieces(absl::string_view name, int64_t piece_bytes,
                                    absl::FunctionRef<void(absl::string_view)> take);
  // Returns the names in the order in which they were written.
  virtual std::vector<std::string> Names() const = 0;

  absl::StatusOr<Tensor> ReadTensor(absl::string_view name);
  // Reads a tensor into `values`. kInvalidArgument if the dtype or the number of elements differs;
  // the message says what was found and expected.
  template <typename T>
  absl::Status ReadSpan(absl::string_view name, absl::Span<T> values) {
    absl::Status status = CheckInfo(name, kDTypeOf<T>, static_cast<int64_t>(values.size()));
    if (!status.ok()) return status;
    return Read(name, {absl::Span<char>(reinterpret_cast<char*>(values.data()),
                                        values.size() * sizeof(T))});
  }
  absl::StatusOr<int64_t> ReadInt(absl::string_view name);
  // Read counts, such as steps and iterations. kInvalidArgument unless each is from `least` to
  // kMaxSavedCount: a run that continues to count from there does not overflow.
  absl::StatusOr<int64_t> ReadCount(absl::string_view name, int64_t least = 0);
  absl::Status ReadCounts(absl::string_view name, absl::Span<int64_t> values, int64_t least = 0);
  absl::StatusOr<double> ReadDouble(absl::string_view name);
  absl::StatusOr<std::string> ReadString(absl::string_view name);
  absl::Status ReadRng(absl::string_view name, Rng* rng);

 private:
  absl::Status CheckInfo(absl::string_view name, DType dtype, int64_t num_elements) const;
};

// Adds "<scope>/" to every name. The inner writer or reader must outlive it.
class ScopedStateWriter : public StateWriter {
 public:
  ScopedStateWriter(StateWriter* inner, absl::string_view scope);
  absl::Status Write(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                     absl::Span<const absl::string_view> parts) override;
  absl::Status WriteInPieces(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                             Pieces pieces) override;
  bool needs_values(DType dtype) const override { return inner_->needs_values(dtype); }
  void WhenKept(std::function<void()> kept) override { inner_->WhenKept(std::move(kept)); }

 private:
  StateWriter* const inner_;
  const std::string prefix_;
};

class ScopedStateReader : public StateReader {
 public:
  ScopedStateReader(StateReader* inner, absl::string_view scope);
  absl::StatusOr<TensorInfo> Info(absl::string_view name) const override;
  absl::Status Read(absl::string_view name, absl::Span<const absl::Span<char>> parts) override;
  absl::Status ReadInPieces(absl::string_view name, int64_t piece_bytes,
                            absl::FunctionRef<void(absl::string_view)> take) override;
  // Returns the names in this scope, without the name of the scope.
  std::vector<std::string> Names() const override;

 private:
  StateReader* const inner_;
  const std::string prefix_;
};

// A state in memory: writes to, and reads from, a TensorMap. Error messages name `source`.
class StateDict : public StateWriter, public StateReader {
 public:
  explicit StateDict(absl::string_view source = "state in memory") : source_(source) {}
  StateDict(TensorMap tensors, absl::string_view source)
      : tensors_(std::move(tensors)), source_(source) {}

  absl::Status Write(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                     absl::Span<const absl::string_view> parts) override;
  void WhenKept(std::function<void()> kept) override { kept(); }
  absl::StatusOr<TensorInfo> Info(absl::string_view name) const override;
  absl::Status Read(absl::string_view name, absl::Span<const absl::Span<char>> parts) override;
  std::vector<std::string> Names() const override;

  // Writes all tensors in their order.
  absl::Status SaveState(StateWriter* writer) const;

  const TensorMap& tensors() const { return tensors_; }

 private:
  TensorMap tensors_;
  std::string source_;
};

// The state of a component at one moment. It can be written several times, later, on any thread,
// while the component continues: it shares or owns all that it writes.
using StateSnapshot = std::function<absl::Status(StateWriter*)>;

// Returns a snapshot that copies what `save` writes; for small states.
absl::StatusOr<StateSnapshot> CopyState(const std::function<absl::Status(StateWriter*)>& save);

}  // namespace ding

#endif  // DING_WORKER_DATA_STATE_H_
