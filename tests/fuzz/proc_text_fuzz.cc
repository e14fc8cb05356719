// SPDX-License-Identifier: Apache-2.0
// Texts of /proc for the readers of tasks and mounts: a number of tasks is never negative, and a
// type is one word of the text for everything under its mount point.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kernel/mount_table.h"
#include "sources/task_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tasks = forestall::sources::parse_task_total(text);
  if (tasks && *tasks < 0) std::abort();
  for (const char* path : {"/", "/var/lib/kubelet", "/a b"}) {
    const auto type = forestall::kernel::mounted_type(text, path);
    if (type && text.find(*type) == std::string_view::npos) std::abort();
  }
  return 0;
}
