/* Attributes of operations that a converter has to say in other words. */
#ifndef OPS_ELEMENTS_H
#define OPS_ELEMENTS_H

#include "graph/op.h"

struct clip_attributes {
    float low, high;
};

struct unary_attributes {
    enum unary kind;
    float alpha, beta;
};

struct arithmetic_attributes {
    enum arithmetic kind;
};

struct reshape_attributes {
    struct shape shape;
};

#endif
