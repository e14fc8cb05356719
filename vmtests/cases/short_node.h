// SPDX-License-Identifier: Apache-2.0
// A machine that is short of memory as a whole, while this object exists: readers that cache more
// than fits, one of them within a limit of its own, and a hog that leaves them too little. Kswapd
// and all allocating tasks must reclaim. Only inside a VM.
#pragma once

#include <optional>
#include <string>

#include "integration/bpf_events.h"
#include "support/child.h"
#include "support/scratch_cgroup.h"

namespace forestall::vm {

// Sets a file of /proc/sys/vm for the time of a case.
class VmSetting {
 public:
  VmSetting(const std::string& name, const std::string& value);
  VmSetting(const VmSetting&) = delete;
  VmSetting& operator=(const VmSetting&) = delete;
  ~VmSetting();

 private:
  std::string path_;
  std::string before_;
};

// Whether the running kernel has oopsed since boot: bit 7 of its taint mask (TAINT_DIE,
// Documentation/admin-guide/tainted-kernels.rst).
[[nodiscard]] bool kernel_has_oopsed();

class ShortNode {
 public:
  // Makes the cgroups; nothing runs yet.
  ShortNode();
  // The reader within a limit of 24 MiB.
  [[nodiscard]] const std::string& limited() const { return limited_; }
  [[nodiscard]] const test::ScratchCgroup& scratch() const { return scratch_; }
  void start();
  // The kernel had to kill the hog, and the shortage is over.
  [[nodiscard]] bool over() const { return hog_->ended(); }

 private:
  [[nodiscard]] test::Child reads(const std::string& path, const test::CacheFile& cache);

  test::ScratchCgroup scratch_;
  const std::string limited_ = scratch_.child("limited");
  const std::string filler_ = scratch_.child("filler");
  // Each its own file, because cache of one reader is not charged to another.
  const test::CacheFile small_, large_;
  // A minimal distance between the watermarks at which kswapd wakes and at which tasks must
  // reclaim: otherwise kswapd alone keeps up with so small a machine.
  const VmSetting distance_{"watermark_scale_factor", "1"};
  const VmSetting least_{"min_free_kbytes", "1024"};
  std::optional<test::Child> readers_[4];
  std::optional<test::Child> hog_;
};

}  // namespace forestall::vm
