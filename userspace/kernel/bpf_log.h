// SPDX-License-Identifier: Apache-2.0
// What libbpf and the verifier say, caught instead of printed: an agent's stderr is its operator's,
// and a refusal is evidence that belongs into a FeatureReport.
#pragma once

#include <string>
#include <string_view>

namespace forestall::kernel {

// Collects libbpf's warnings of this thread while it lives; with no BpfLog alive they are
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

// One line out of many: libbpf's first complaint, and the verifier's last word if there is one.
[[nodiscard]] std::string summarize_bpf_log(std::string_view log);

}  // namespace forestall::kernel
