// SPDX-License-Identifier: Apache-2.0
// forestall-prekill: started by the agent only (prekill/supervisor.h).
#include <cstdio>

#include "prekill/supervisor.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("forestall-prekill: the agent starts it, for one prekill hook\n", stderr);
    return 2;
  }
  return forestall::prekill::supervise(argv + 1);
}
