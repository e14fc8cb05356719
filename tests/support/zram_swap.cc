// SPDX-License-Identifier: Apache-2.0
#include "support/zram_swap.h"

#include <sys/swap.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace forestall::test {
namespace {

constexpr const char* kDisk = "/dev/zram0";

bool set(const char* file, std::int64_t value) {
  std::ofstream out(std::string("/sys/block/zram0/") + file);
  return static_cast<bool>(out << value << std::flush);
}

}  // namespace

ZramSwap::ZramSwap(Bytes size) {
  if (!set("reset", 1) || !set("disksize", size.count)) throw std::runtime_error("zram0");
  // The program of busybox or util-linux, which defines the format of a swap area.
  if (std::system("mkswap /dev/zram0 >/dev/null") != 0) throw std::runtime_error("mkswap");
  if (::swapon(kDisk, 0) != 0) throw std::runtime_error("swapon /dev/zram0");
}

ZramSwap::~ZramSwap() {
  ::swapoff(kDisk);
  set("reset", 1);
}

}  // namespace forestall::test
