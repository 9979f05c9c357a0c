// Builds an ONNX model node by node and encodes it. The format is protobuf; its few messages are
// written here by hand (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), so that the
// program needs no library of ONNX.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_EXPORT_ONNX_GRAPH_H_
#define DING_WORKER_POLICY_EXPORT_ONNX_GRAPH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

class OnnxGraph {
 public:
  // TensorProto.DataType.
  enum Type { kFloat = 1, kUint8 = 2, kInt64 = 7, kBool = 9, kDouble = 11 };
  using Names = std::vector<std::string>;
  // The attributes of a node: integers, and lists of them.
  struct Attribute {
    std::string name;
    std::vector<int64_t> ints;
    bool is_list = false;
  };
  static Attribute Int(std::string name, int64_t value) {
    return {std::move(name), {value}, false};
  }
  static Attribute Ints(std::string name, std::vector<int64_t> values) {
    return {std::move(name), std::move(values), true};
  }

  // Declare an input or output [B, ...shape].
  void AddInput(const std::string& name, Type type, absl::Span<const int64_t> shape);
  void AddOutput(const std::string& name, Type type, absl::Span<const int64_t> shape);
  // Adds a node with one output, or several; returns the names of the outputs. `output` names them,
  // if it is not empty.
  std::string Add(absl::string_view op, const Names& inputs,
                  const std::vector<Attribute>& attributes = {}, const std::string& output = "");
  Names AddSplit(const std::string& input, const std::vector<int64_t>& sizes);
  // Adds a constant; returns its name.
  std::string Floats(absl::Span<const float> values, absl::Span<const int64_t> shape);
  std::string Doubles(absl::Span<const double> values, absl::Span<const int64_t> shape);
  std::string Integers(absl::Span<const int64_t> values);

  // The bytes of the model.
  std::string Encode() const;

 private:
  std::string NextName();
  std::string AddTensor(Type type, absl::string_view bytes, absl::Span<const int64_t> shape);
  void AddNode(absl::string_view op, const Names& inputs, const Names& outputs,
               const std::vector<Attribute>& attributes);

  std::string nodes_;  // encoded fields of GraphProto
  std::string constants_;
  std::string inputs_;
  std::string outputs_;
  int names_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_EXPORT_ONNX_GRAPH_H_
