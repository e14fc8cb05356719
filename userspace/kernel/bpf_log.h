// SPDX-License-Identifier: Apache-2.0
// Captures the messages of libbpf and of the verifier, which libbpf prints to stderr by default. A
// refusal is evidence for a FeatureReport.
#pragma once

#include <string>
#include <string_view>

namespace forestall::kernel {

// Collects libbpf's warnings of this thread during its lifetime. Without a BpfLog they are
// discarded.
class BpfLog {
 public:
  BpfLog();
  BpfLog(const BpfLog&) = delete;
  BpfLog& operator=(const BpfLog&) = delete;
  ~BpfLog();

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::string* previous_;
};

// One line: libbpf's first message, and the verifier's last one if there is one.
[[nodiscard]] std::string summarize_bpf_log(std::string_view log);

}  // namespace forestall::kernel
