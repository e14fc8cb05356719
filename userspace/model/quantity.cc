// SPDX-License-Identifier: Apache-2.0
#include "model/quantity.h"
