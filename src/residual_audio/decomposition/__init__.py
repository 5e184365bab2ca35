"""Pure tensor maths: heads → contributions → exact shares of the output. Takes tensors, never models."""
