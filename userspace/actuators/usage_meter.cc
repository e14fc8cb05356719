// SPDX-License-Identifier: Apache-2.0
#include "actuators/usage_meter.h"

#include <unistd.h>

#include <array>

#include "base/parse.h"

namespace forestall::actuators {

Result<UsageMeter> UsageMeter::open(const kernel::CgroupDir& cgroup,
                                    kernel::CgroupVersion version) {
  const char* file =
      version == kernel::CgroupVersion::v2 ? "memory.current" : "memory.usage_in_bytes";
  auto opened = TRY(kernel::HeldFile::open(cgroup.fd(), file, cgroup.path() + "/" + file));
  return UsageMeter(std::make_shared<const kernel::HeldFile>(std::move(opened)));
}

Result<Bytes> UsageMeter::read() const {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(file_->fd(), text.data(), text.size(), 0);
  if (size < 0) return errno_error("pread", "memory usage of the victim");
  const auto bytes = parse_i64(trim({text.data(), static_cast<std::size_t>(size)}));
  if (!bytes) return error("memory usage of the victim is not a number");
  return Bytes{*bytes};
}

bool memory_is_back(Bytes before, Bytes now, bool all_exited) {
  if (all_exited) return now < before || before <= kUsageGrain;
  return before.count > 0 && now.count <= before.count / 10;
}

}  // namespace forestall::actuators
